// program.go - the text of the program that a cell becomes.
package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

type program struct {
	world
	once []declaration
	body strings.Builder
}

// Those that are used: the compiler refuses others. nil: all of them.
func (w *world) importText(used map[imported]bool) string {
	var b strings.Builder
	for _, one := range w.imports {
		quiet := one.name == "_" || one.name == "."
		if used != nil && !quiet && !used[one] {
			continue
		}
		fmt.Fprintf(&b, "import %s %q\n", one.name, one.path)
	}
	return b.String()
}

func (w *world) declarationText(once []declaration) string {
	var b strings.Builder
	for _, d := range append(append([]declaration{}, w.declarations...), once...) {
		b.WriteString(d.place + d.text + "\n")
	}
	b.WriteString("//line execd:1\n")
	return b.String()
}

func (w *world) variableText() string {
	var b strings.Builder
	for _, v := range w.variables {
		fmt.Fprintf(&b, "var %s %s\n", v.name, v.typ)
	}
	return b.String()
}

// For the first look: statements as they are.
func (p *program) lookText(statements []statement) string {
	var b strings.Builder
	b.WriteString(header + p.importText(nil) + p.declarationText(p.once))
	b.WriteString(p.variableText() + "func display(kind, data string) {}\nfunc execd_cell() {\n")
	for _, s := range statements {
		b.WriteString(s.place + s.text + "\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func within(names []string, name string) bool {
	for _, one := range names {
		if one == name {
			return true
		}
	}
	return false
}

// The type of each name that the statements of the cell define.
func (l *look) defined() map[string]types.Type {
	found := map[string]types.Type{}
	for _, d := range l.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "execd_cell" {
			continue
		}
		for _, s := range f.Body.List {
			ast.Inspect(s, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if o, ok := l.info.Defs[n].(*types.Var); ok {
						found[n.Name] = o.Type()
					}
				case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
					return false // what is defined in there ends there
				}
				return true
			})
		}
	}
	return found
}

// Whether the last statement is an expression that has something to show.
func (l *look) showsLast() bool {
	for _, d := range l.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "execd_cell" || len(f.Body.List) == 0 {
			continue
		}
		s, ok := f.Body.List[len(f.Body.List)-1].(*ast.ExprStmt)
		if !ok {
			return false
		}
		t := l.info.Types[s.X]
		tuple, isTuple := t.Type.(*types.Tuple)
		return t.Type != nil && !t.IsVoid() && !t.IsNil() && !(isTuple && tuple.Len() != 1)
	}
	return false
}

// Makes variables of the package of what the statement defines, where types have names.
func (p *program) adopt(s statement, l *look, defined map[string]types.Type) string {
	var made []variable
	var needs []imported
	var texts []string
	for _, m := range s.makers {
		texts = append(texts, m.text)
		for _, name := range m.names {
			if name == "_" {
				continue
			}
			typ, more := p.typeName(defined[name], l.pkg)
			if typ == "" {
				return s.text + "\n_ = " + name
			}
			made = append(made, variable{name: name, typ: typ, maker: m, here: true})
			needs = append(needs, more...)
		}
	}
	for _, v := range made {
		p.drop(v.name)
		p.variables = append(p.variables, v)
	}
	for _, one := range needs {
		p.world.addImport(one)
	}
	return strings.Join(texts, "; ")
}

func (p *program) addStatements(statements []statement, l *look) {
	defined := l.defined()
	for i, s := range statements {
		text := s.text
		if s.makers != nil {
			text = p.adopt(s, l, defined)
		} else if i == len(statements)-1 && s.value != nil && l.showsLast() {
			text = "execd_show(" + s.text + ")"
		}
		p.body.WriteString(s.place + text + "\n")
	}
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_]*`)

// Adds what those that must be made anew are made of, as far as that must be, too.
func (w *world) closeUses(used map[string]bool) {
	for again := true; again; {
		again = false
		for _, v := range w.variables {
			if v.kept || v.here || !used[v.name] {
				continue
			}
			for _, name := range word.FindAllString(v.maker.text, -1) {
				again = again || !used[name] && w.find(name) != nil
				used[name] = true
			}
		}
	}
}

// The statements that make anew what could not be kept and is used now. What was kept of the names
// on their left is left alone.
func (w *world) remakeText(used map[string]bool) string {
	var b strings.Builder
	done := map[string]bool{}
	w.closeUses(used)
	for i := range w.variables {
		v := &w.variables[i]
		if v.kept || v.here && !done[v.maker.text] || !used[v.name] {
			continue
		}
		v.here = true
		if done[v.maker.text] {
			continue
		}
		done[v.maker.text] = true
		left, right, _ := strings.Cut(v.maker.text, "=")
		for _, name := range v.maker.names {
			other := w.find(name)
			if name != "_" && (other == nil || other.kept || other.maker.text != v.maker.text) {
				left = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(left, "_")
			}
		}
		b.WriteString(left + "=" + right + "\n")
	}
	return b.String()
}

// The text that is compiled, next to our own part.
func (p *program) text(remake string) string {
	var b, vars, kinds strings.Builder
	for _, v := range p.variables {
		fmt.Fprintf(&vars, "{%q, &%s},", v.name, v.name)
	}
	for _, d := range p.declarations {
		for name := range d.names {
			if d.isType[name] {
				fmt.Fprintf(&kinds, "(*%s)(nil),", name)
			}
		}
	}
	b.WriteString(p.declarationText(p.once) + p.variableText())
	if !p.declares("display") {
		b.WriteString("func display(kind, data string) { execd_display(kind, data) }\n")
	}
	fmt.Fprintf(&b, "var execd_kinds = []any{%s}\n", kinds.String())
	fmt.Fprintf(&b, "func execd_variables() []execd_variable { return []execd_variable{%s} }\n",
		vars.String())
	fmt.Fprintf(&b, "func execd_remake() {\n%s}\n", remake)
	fmt.Fprintf(&b, "func execd_cell() {\n%s//line execd:1\n}\n", p.body.String())
	return b.String()
}
