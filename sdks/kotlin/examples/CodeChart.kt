// Code in a context, and what it shows: text, HTML, pictures.
package examples.codechart

import com.alibaba.opensandbox.codeinterpreter.CodeInterpreter
import com.alibaba.opensandbox.codeinterpreter.SupportedLanguage
import com.alibaba.opensandbox.sandbox.Sandbox

private const val TABLE = """
class Table:
    def _repr_html_(self):
        return "<table><tr><td>%d</td></tr></table>" % total
Table()
"""

private const val CHART = """
try:
    import matplotlib
    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 4, 9])
    plt.show()
except ImportError:
    print("there is no matplotlib here")
"""

fun main() {
    Sandbox.builder().image("opensandbox/code-interpreter:v1.0.2").build().use { sandbox ->
        val codes =
            CodeInterpreter
                .builder()
                .fromSandbox(sandbox)
                .build()
                .codes()
        val context = codes.createContext(SupportedLanguage.PYTHON)
        codes.run("total = 6 * 7", context)
        println(codes.run("total", context).result.single().text)
        println(codes.run(TABLE, context).result.single().html)
        val chart = codes.run(CHART, context)
        println(chart.text)
        chart.result.forEach { result -> result.png?.let { println("a picture of ${it.size} bytes") } }
        sandbox.kill()
    }
}
