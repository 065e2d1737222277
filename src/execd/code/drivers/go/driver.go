// driver.go - cells of go: each is compiled with all that was declared before, and run as a
// process of its own. Needs Go 1.19. docs/internals/execd.md has the protocol, and what of a cell
// lives on. All files of this directory come as one text; the start command splits it at
// their first lines.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"go/token"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	fdRequests, fdEvents, fdSource = 3, 4, 5

	cellMark      = "// cell.go - " // begins the part of our source that goes into every cell
	interruptWait = 300 * time.Millisecond
	interruptLag  = 50 * time.Millisecond
	outputGrace   = 100 * time.Millisecond
)

// Packages a cell may use without importing them.
const known = "bufio bytes context crypto/sha256 encoding/base64 encoding/csv encoding/hex " +
	"encoding/json errors fmt io math math/big math/rand net/http net/url os os/exec " +
	"path/filepath reflect regexp runtime sort strconv strings sync time unicode"

type request struct {
	ID    string
	Count int
	Code  string
}

type event map[string]any

// --- from a cell to its program ---

type driver struct {
	events   *os.File
	runtime  string
	packages *packages
	world    world
	busy     atomic.Bool
	stop     atomic.Bool
	wake     chan struct{}
}

func (d *driver) prepare(code, file string) (*program, string, error) {
	var statements []statement
	c, err := split(code, file)
	if err != nil {
		return nil, "", err
	}
	p := &program{world: d.world.clone()}
	for _, one := range c.pieces {
		if one.first == token.IMPORT {
			err = p.addImports(one)
		} else if isDeclaration(one) {
			var once declaration
			if once, err = p.addDeclaration(c, one); once.text != "" {
				p.once = append(p.once, once)
			}
		} else {
			var s statement
			if s, err = readStatement(one); s.text != "" {
				statements = append(statements, s)
			}
		}
		if err != nil {
			return nil, "", err
		}
	}
	if c.mains {
		statements = append(statements, statement{piece: piece{text: "execd_main()"}})
	}
	l, err := d.look(p, statements)
	if err != nil {
		return nil, "", err
	}
	p.addStatements(statements, l)
	body := p.text(p.remakeText(l.usedVariables()))
	// Which packages the final text uses: types of variables may need more than the cells said.
	final := d.packages.check(header + p.importText(nil) + body + d.stubs())
	return p, header + p.importText(final.used()) + body, nil
}

// Imports what is used without having been, too.
func (d *driver) look(p *program, statements []statement) (*look, error) {
	l := d.packages.check(p.lookText(statements))
	if l == nil {
		return nil, errors.New("the cell cannot be read")
	}
	more := l.unknown()
	for _, one := range more {
		p.world.addImport(one)
	}
	if len(more) > 0 {
		l = d.packages.check(p.lookText(statements))
	}
	return l, nil
}

// What the text needs of our part, for a look at it.
func (d *driver) stubs() string {
	return "type execd_variable struct { Name string; At any }\n" +
		"func execd_show(v any) {}\nfunc execd_display(kind, data string) {}\n"
}

// --- requests and events ---

func (d *driver) send(e event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = d.events.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(1)
	}
}

func (d *driver) handle(r request) {
	select { // an interrupt that came too late for the last cell
	case <-d.wake:
	default:
	}
	d.stop.Store(false)
	d.busy.Store(true)
	d.send(event{"type": "begin", "id": r.ID})
	shown, err := d.evaluate(r)
	d.busy.Store(false)
	if err != nil {
		shown = describe(err)
	}
	if shown != nil {
		d.send(*shown)
	}
	d.send(event{"type": "done", "id": r.ID})
}

func (d *driver) watchInterrupts() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	for range signals {
		if d.busy.Load() {
			d.stop.Store(true)
			select {
			case d.wake <- struct{}{}:
			default:
			}
		}
	}
}

func readRuntime() (string, error) {
	source := os.NewFile(fdSource, "source")
	defer source.Close()
	text, err := io.ReadAll(io.NewSectionReader(source, 0, 1<<20))
	_, runtime, found := strings.Cut(string(text), "\n"+cellMark)
	if err == nil && !found {
		err = errors.New("no part for cells in the driver")
	}
	return "// " + runtime, err
}

func main() {
	for _, fd := range []int{fdRequests, fdEvents, fdSource} {
		syscall.CloseOnExec(fd)
	}
	d := &driver{events: os.NewFile(fdEvents, "events"), packages: newPackages(),
		wake: make(chan struct{}, 1)}
	runtime, err := readRuntime()
	if err != nil {
		d.send(event{"type": "failed", "message": err.Error()})
		os.Exit(1)
	}
	d.runtime = runtime
	go d.watchInterrupts()
	d.send(event{"type": "ready"})
	requests := json.NewDecoder(bufio.NewReader(os.NewFile(fdRequests, "requests")))
	for {
		var r request
		if requests.Decode(&r) != nil {
			return
		}
		d.handle(r)
	}
}
