// look.go - what the type checker of Go says about a cell before it is compiled.
package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Reads what the compiler left of packages; the go command knows where.
type packages struct {
	set   *token.FileSet
	files map[string]string
	gc    types.Importer
}

func newPackages() *packages {
	p := &packages{set: token.NewFileSet(), files: map[string]string{}}
	p.gc = importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) {
		if p.files[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(p.files[path])
	})
	return p
}

func (p *packages) find(paths []string) {
	var missing []string
	for _, path := range paths {
		if _, found := p.files[path]; !found && path != "unsafe" && path != "C" {
			missing = append(missing, path)
		}
	}
	if len(missing) == 0 {
		return
	}
	args := append([]string{"list", "-e", "-export", "-deps", "-f",
		"{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}, missing...)
	out, _ := exec.Command("go", args...).Output()
	for _, line := range strings.Split(string(out), "\n") {
		if path, file, ok := strings.Cut(line, " "); ok {
			p.files[path] = file
		}
	}
}

func (p *packages) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return p.gc.Import(path)
}

// What a first look at the cell finds out. Errors are left to the compiler.
type look struct {
	info *types.Info
	pkg  *types.Package
	file *ast.File
}

func (p *packages) check(source string) *look {
	var paths []string
	f, _ := parser.ParseFile(p.set, "look", source, parser.SkipObjectResolution)
	if f == nil {
		return nil
	}
	for _, spec := range f.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, "\"`"))
	}
	p.find(paths)
	l := &look{file: f, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Defs:  map[*ast.Ident]types.Object{},
		Uses:  map[*ast.Ident]types.Object{},
	}}
	conf := types.Config{Importer: p, Error: func(error) {}, FakeImportC: true}
	l.pkg, _ = conf.Check("main", p.set, []*ast.File{f}, l.info)
	return l
}

// Names in front of a dot that nobody declared, and that are packages everybody knows.
func (l *look) unknown() []imported {
	var found []imported
	ast.Inspect(l.file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			name, ok := s.X.(*ast.Ident)
			if ok && l.info.Uses[name] == nil {
				for _, path := range strings.Fields(known) {
					if filepath.Base(path) == name.Name {
						found = append(found, imported{path: path})
					}
				}
			}
		}
		return true
	})
	return found
}

// The imports it uses. One without a name may be written with it, too.
func (l *look) used() map[imported]bool {
	used := map[imported]bool{}
	for _, object := range l.info.Uses {
		if name, ok := object.(*types.PkgName); ok {
			path := name.Imported().Path()
			used[imported{name.Name(), path}] = true
			if name.Name() == name.Imported().Name() {
				used[imported{"", path}] = true
			}
		}
	}
	return used
}

// Names of the variables of the package it uses.
func (l *look) usedVariables() map[string]bool {
	used := map[string]bool{}
	for name, object := range l.info.Uses {
		if v, ok := object.(*types.Var); ok && v.Parent() == l.pkg.Scope() {
			used[name.Name] = true
		}
	}
	return used
}

var hidden = regexp.MustCompile(`\.[a-z_]`)

// How the type is written in the cell, or "" when it cannot be.
func (w *world) typeName(t types.Type, pkg *types.Package) (string, []imported) {
	var needs []imported
	ok := t != nil && t != types.Typ[types.Invalid] && t != types.Typ[types.UntypedNil]
	if !ok {
		return "", nil
	}
	name := types.TypeString(t, func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		if strings.Contains("/"+p.Path()+"/", "/internal/") {
			ok = false
		}
		one := imported{"execd_" + p.Name(), p.Path()}
		needs = append(needs, one)
		return one.name
	})
	if !ok || strings.Contains(name, "invalid type") || hidden.MatchString(name) {
		return "", nil
	}
	return name, needs
}
