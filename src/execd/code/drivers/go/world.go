// world.go - what lives on from cell to cell: imports, declarations, variables.
package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// A declaration as it was written. Of a group, what is declared anew elsewhere becomes "_".
type declaration struct {
	kind   token.Token // FUNC, TYPE or CONST
	text   string
	place  string         // of its first line: a line directive
	names  map[string]int // where they stand in the text
	isType map[string]bool
}

// A variable of the package, and the statement that makes it anew when it could not be kept.
type variable struct {
	name, typ string
	maker     maker
	kept      bool // the state has its value
	here      bool // the cell at hand makes it, or makes it anew
}

type imported struct{ name, path string } // no name: that of the package

type world struct {
	imports      []imported
	declarations []declaration
	variables    []variable
	state        []byte // values, as the process of the last cell left them
}

func (w world) clone() world {
	c := world{state: w.state}
	c.imports = append(c.imports, w.imports...)
	c.variables = append(c.variables, w.variables...)
	for _, d := range w.declarations {
		names := map[string]int{}
		for name, at := range d.names {
			names[name] = at
		}
		d.names = names
		c.declarations = append(c.declarations, d)
	}
	return c
}

// Forgets what had this name.
func (w *world) drop(name string) {
	for i := range w.declarations {
		d := &w.declarations[i]
		at, found := d.names[name]
		if !found {
			continue
		}
		delete(d.names, name)
		d.text = d.text[:at] + "_" + strings.Repeat(" ", len(name)-1) + d.text[at+len(name):]
		if len(d.names) == 0 {
			w.declarations = append(w.declarations[:i:i], w.declarations[i+1:]...)
		}
		break
	}
	for i, v := range w.variables {
		if v.name == name {
			w.variables = append(w.variables[:i:i], w.variables[i+1:]...)
			break
		}
	}
}

func (w *world) declares(name string) bool {
	for _, d := range w.declarations {
		if _, found := d.names[name]; found {
			return true
		}
	}
	for _, v := range w.variables {
		if v.name == name {
			return true
		}
	}
	return false
}

func (w *world) addImport(one imported) {
	for _, have := range w.imports {
		if have == one {
			return
		}
	}
	w.imports = append(w.imports, one)
}

func (w *world) find(name string) *variable {
	for i := range w.variables {
		if w.variables[i].name == name {
			return &w.variables[i]
		}
	}
	return nil
}

// --- declarations ---

func (w *world) addImports(p piece) error {
	f, _, _, err := parse(p, "", "\n")
	if err != nil {
		return err
	}
	for _, spec := range f.Imports {
		one := imported{path: strings.Trim(spec.Path.Value, "\"`")}
		if spec.Name != nil {
			one.name = spec.Name.Name
		}
		w.addImport(one)
	}
	return nil
}

// What a declaration declares: offsets of names. Methods are "Type.Name".
func declaredNames(d ast.Decl, offset func(token.Pos) int) (map[string]int, map[string]bool) {
	names, isType := map[string]int{}, map[string]bool{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil && len(d.Recv.List) > 0 {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = offset(d.Name.Pos())
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names[spec.Name.Name] = offset(spec.Name.Pos())
				_, isInterface := spec.Type.(*ast.InterfaceType)
				isType[spec.Name.Name] = spec.TypeParams == nil && !isInterface
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[name.Name] = offset(name.Pos())
				}
			}
		}
	}
	delete(names, "_")
	return names, isType
}

func receiver(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

func (w *world) addDeclaration(c *cell, p piece) (declaration, error) {
	f, set, start, err := parse(p, "", "\n")
	if err != nil || len(f.Decls) == 0 {
		return declaration{}, err
	}
	offset := func(pos token.Pos) int { return set.PositionFor(pos, false).Offset - start }
	d := declaration{kind: p.first, text: p.text, place: p.place}
	d.names, d.isType = declaredNames(f.Decls[0], offset)
	// These two are for this cell alone; main is what it does.
	if at, found := d.names["main"]; found && p.first == token.FUNC {
		c.mains = true
		d.text = d.text[:at] + "execd_main" + d.text[at+len("main"):]
		return d, nil
	}
	if _, found := d.names["init"]; found && p.first == token.FUNC {
		return d, nil
	}
	for name := range d.names {
		w.drop(name)
	}
	w.declarations = append(w.declarations, d)
	return declaration{}, nil
}
