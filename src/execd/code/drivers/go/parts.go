// parts.go - a cell taken apart: declarations, statements, and which variables they make.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// A piece is a statement or a declaration: what stands between two semicolons, written or not.
type piece struct {
	text  string
	place string
	first token.Token
	named bool // func: with a name, so a declaration
}

type cell struct {
	file   string // as error messages name it
	pieces []piece
	mains  bool // it has a func main()
}

func isDeclaration(p piece) bool {
	switch p.first {
	case token.IMPORT, token.TYPE, token.CONST:
		return true
	case token.FUNC:
		return p.named
	}
	return false
}

func split(code, file string) (*cell, error) {
	var errs scanner.ErrorList
	var s scanner.Scanner
	var tokens []token.Token
	c := &cell{file: file}
	set := token.NewFileSet()
	f := set.AddFile(file, -1, len(code))
	start, depth := -1, 0
	header := false // of a for, if or switch: semicolons end nothing there
	end := func(at int) {
		if start >= 0 {
			position := f.Position(f.Pos(start))
			c.pieces = append(c.pieces, piece{
				text:  code[start:at],
				place: fmt.Sprintf("//line %s:%d:%d\n", file, position.Line, position.Column),
				first: tokens[0], named: isNamed(tokens),
			})
		}
		start, tokens = -1, nil
	}

	s.Init(f, []byte(code), errs.Add, 0)
	for {
		pos, tok, _ := s.Scan()
		at := len(code)
		if tok != token.EOF {
			at = f.Offset(pos)
		}
		switch tok {
		case token.FOR, token.IF, token.SWITCH:
			header = header || depth == 0
		case token.LPAREN, token.LBRACK, token.LBRACE:
			header = header && (depth > 0 || tok != token.LBRACE)
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
		if tok == token.EOF || tok == token.SEMICOLON && depth == 0 && !header {
			end(at)
		} else {
			if start < 0 {
				start = at
			}
			tokens = append(tokens, tok)
		}
		if tok == token.EOF {
			return c, errs.Err()
		}
	}
}

// func f(), func (r T) f(); but not func() {}()
func isNamed(tokens []token.Token) bool {
	at := 1
	if len(tokens) < 3 || tokens[0] != token.FUNC {
		return false
	}
	if tokens[1] == token.LPAREN {
		for depth := 0; at < len(tokens); {
			if tokens[at] == token.LPAREN {
				depth++
			} else if tokens[at] == token.RPAREN {
				depth--
			}
			if at++; depth == 0 {
				break
			}
		}
	}
	return at+1 < len(tokens) && tokens[at] == token.IDENT &&
		(tokens[at+1] == token.LPAREN || tokens[at+1] == token.LBRACK)
}

const header = "package main\n"

// Parses a piece as part of a file, and says how much stands before it.
func parse(p piece, before, after string) (*ast.File, *token.FileSet, int, error) {
	set := token.NewFileSet()
	head := header + before
	f, err := parser.ParseFile(set, "cell", head+p.place+p.text+after, parser.SkipObjectResolution)
	return f, set, len(head) + len(p.place), err
}

// --- statements ---

// An assignment that makes variables: "a, b = f()".
type maker struct {
	text  string
	names []string
}

type statement struct {
	piece
	makers []maker // it makes variables, and is these
	value  ast.Expr
}

func readStatement(p piece) (statement, error) {
	s := statement{piece: p}
	f, set, start, err := parse(p, "func _() {\n", "\n}\n")
	if err != nil {
		return s, err
	}
	body := f.Decls[len(f.Decls)-1].(*ast.FuncDecl).Body.List
	if len(body) != 1 {
		return s, nil
	}
	text := func(from, to token.Pos) string {
		return p.text[set.PositionFor(from, false).Offset-start : set.PositionFor(to, false).Offset-start]
	}
	switch x := body[0].(type) {
	case *ast.ExprStmt:
		s.value = x.X
	case *ast.AssignStmt:
		if x.Tok == token.DEFINE {
			at := set.PositionFor(x.TokPos, false).Offset - start
			m := maker{text: p.text[:at] + "= " + p.text[at+len(":="):]}
			for _, e := range x.Lhs {
				if name, ok := e.(*ast.Ident); ok {
					m.names = append(m.names, name.Name)
				}
			}
			s.makers = []maker{m}
		}
	case *ast.DeclStmt:
		s.addVariables(x.Decl.(*ast.GenDecl), text)
	}
	return s, nil
}

// `var a, b = f()` does what `a, b := f()` would, where it stands; without a value, it resets.
func (s *statement) addVariables(d *ast.GenDecl, text func(from, to token.Pos) string) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			return
		}
		var left, right []string
		for _, name := range v.Names {
			left = append(left, name.Name)
			if v.Values == nil {
				right = append(right, "*new("+text(v.Type.Pos(), v.Type.End())+")")
			}
		}
		for _, value := range v.Values {
			right = append(right, text(value.Pos(), value.End()))
		}
		s.makers = append(s.makers,
			maker{strings.Join(left, ", ") + " = " + strings.Join(right, ", "), left})
	}
}
