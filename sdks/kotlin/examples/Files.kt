// Files in and out: texts, streams, directories.
package examples.files

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry
import java.nio.file.Files

fun main() {
    Sandbox.builder().image("python:3.12").build().use { sandbox ->
        val files = sandbox.files()
        val text =
            WriteEntry
                .builder()
                .path("/tmp/work/a.txt")
                .data("first\nsecond\n")
                .mode(644)
                .build()
        val bytes =
            WriteEntry
                .builder()
                .path("/tmp/work/b.bin")
                .data(ByteArray(1000))
                .build()
        files.write(listOf(text, bytes))
        println(files.readFile("/tmp/work/a.txt", offset = 2, limit = 1))
        println(files.readStream("/tmp/work/b.bin").use { it.readBytes().size })
        println(files.search(SearchEntry("/tmp/work", "*.txt")).map { it.path })
        val here = Files.createTempDirectory("example")
        files.downloadDirectory("/tmp/work", here)
        println(Files.list(here).use { it.count() })
        here.toFile().deleteRecursively()
        sandbox.kill()
    }
}
