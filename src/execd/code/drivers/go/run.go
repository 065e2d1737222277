// run.go - compiling the program of a cell, running it, and telling what went wrong.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"syscall"
	"time"
)

var errStopped = errors.New("stopped")

type compileError struct{ lines []string }

func (e *compileError) Error() string { return e.lines[0] }

func (d *driver) build(dir string, files map[string]string) error {
	args := []string{"build", "-ldflags=-s -w", "-o", filepath.Join(dir, "cell")}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		args = append(args, path)
	}
	sort.Strings(args[4:])
	var out bytes.Buffer
	build := exec.Command("go", args...)
	build.Stdout, build.Stderr = &out, &out
	err := d.await(build)
	if err == nil || err == errStopped {
		return err
	}
	return &compileError{cleanErrors(out.String())}
}

var ownPlace = regexp.MustCompile(`^\S*/(?:(cell-\d+:)|cell\.go:\d+:\d+: )`)

// Without the directory of ours, and the name the go command gives to files without a package.
func cleanErrors(text string) []string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if strings.HasPrefix(line, "# command-line-arguments") {
			continue
		}
		lines = append(lines, ownPlace.ReplaceAllString(line, "$1"))
	}
	if len(lines) == 0 {
		lines = append(lines, "the cell cannot be compiled")
	}
	return lines
}

// Starts the command and waits. SIGINT reaches it too: it is of our group. Should it want to live,
// it is killed.
func (d *driver) await(command *exec.Cmd) error {
	if d.stop.Load() {
		return errStopped
	}
	if err := command.Start(); err != nil {
		return err
	}
	return d.wait(command)
}

func (d *driver) wait(command *exec.Cmd) error {
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	for {
		select {
		case err := <-done:
			if d.stop.Load() || err != nil && d.stops(err) {
				return errStopped
			}
			return err
		case <-d.wake:
			time.AfterFunc(interruptWait, func() { _ = command.Process.Kill() })
		}
	}
}

// Whether SIGINT was what ended it. It may have heard of that before we do: then we wait for ours,
// which would hit the next cell otherwise.
func (d *driver) stops(err error) bool {
	var exit *exec.ExitError
	signaled, lag := false, interruptLag
	if errors.As(err, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		signaled = ok && status.Signaled() && status.Signal() == syscall.SIGINT
	}
	if signaled {
		lag = time.Second
	}
	select {
	case <-d.wake:
		return true
	case <-time.After(lag):
		return signaled
	}
}

// What the process of a cell tells: through its descriptor 3, in lines of JSON.
type report struct {
	Type  string
	Kind  string
	Data  string
	Stack string
	Kept  []string
	State []byte
}

type outcome struct {
	result *event
	panics *report
	state  *report
}

func (d *driver) run(dir string) (outcome, error) {
	var o outcome
	reports, theirs, err := os.Pipe()
	if err != nil {
		return o, err
	}
	defer reports.Close()
	command := exec.Command(filepath.Join(dir, "cell"))
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.ExtraFiles = []*os.File{theirs}
	state, err := os.CreateTemp(dir, "state")
	if err == nil {
		_, err = state.Write(d.world.state)
	}
	if err == nil {
		_, err = state.Seek(0, io.SeekStart)
	}
	if err != nil {
		return o, err
	}
	defer state.Close()
	command.ExtraFiles = append(command.ExtraFiles, state)
	if d.stop.Load() {
		return o, errStopped
	}
	err = command.Start()
	theirs.Close()
	_ = os.RemoveAll(dir)
	if err != nil {
		return o, err
	}
	read := make(chan struct{})
	go func() {
		d.readReports(reports, &o)
		close(read)
	}()
	err = d.wait(command)
	_ = reports.SetReadDeadline(time.Now().Add(outputGrace)) // someone else may hold it
	<-read
	return o, err
}

func (d *driver) readReports(from io.Reader, o *outcome) {
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		r := &report{}
		if decoder.Decode(r) != nil {
			return
		}
		switch r.Type {
		case "display":
			d.send(event{"type": "display", "id": "", "update": false, "data": bundle(r.Kind, r.Data)})
		case "result":
			o.result = &event{"type": "result", "data": bundle("text/plain", r.Data)}
		case "panic":
			o.panics = r
		case "state":
			o.state = r
		}
	}
}

func bundle(kind, data string) map[string]any {
	b := map[string]any{"text/plain": "<" + kind + ">"}
	if kind == "application/json" || strings.HasSuffix(kind, "+json") {
		if json.Valid([]byte(data)) {
			b[kind] = json.RawMessage(data)
			return b
		}
	}
	b[kind] = data
	return b
}

// A program of its own: compiled as it is, nothing of it lives on.
var ownProgram = regexp.MustCompile(`(?m)\A(?:\s|//.*$|/\*(?s:.*?)\*/)*package\s+main\b`)

func (d *driver) evaluate(r request) (*event, error) {
	dir, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "execd-go")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := fmt.Sprintf("cell-%d", r.Count)
	if ownProgram.MatchString(r.Code) {
		text := fmt.Sprintf("//line %s:1\n%s", file, r.Code)
		if err = d.build(dir, map[string]string{"cell.go": text}); err != nil {
			return nil, err
		}
		_, err = d.run(dir)
		return nil, err
	}
	p, text, err := d.prepare(r.Code, file)
	if err != nil {
		return nil, err
	}
	if err = d.build(dir, map[string]string{"cell.go": text, "execd.go": d.runtime}); err != nil {
		return nil, err
	}
	o, err := d.run(dir)
	d.keep(p, o)
	if o.panics != nil {
		return failure("panic", o.panics.Data, stackLines(o.panics)), nil
	}
	return o.result, err
}

// What was declared stays, with the values the process told at its end. One that did not get there
// leaves nothing behind: all is as it was before the cell.
func (d *driver) keep(p *program, o outcome) {
	if o.state == nil {
		return
	}
	d.world = p.world
	d.world.state = o.state.State
	for i := range d.world.variables {
		v := &d.world.variables[i]
		v.kept = (v.kept || v.here) && within(o.state.Kept, v.name)
		v.here = false
	}
}

// --- what went wrong ---

func failure(name, value string, lines []string) *event {
	return &event{"type": "error", "ename": name, "evalue": value, "traceback": lines}
}

// Frames of the cell: each is a line with a function, and one with a place.
func stackLines(r *report) []string {
	lines := []string{"panic: " + r.Data}
	frames := strings.Split(r.Stack, "\n")
	for i := 0; i+1 < len(frames); i++ {
		place := strings.TrimSpace(frames[i+1])
		if at := strings.Index(place, "cell-"); at >= 0 && strings.HasPrefix(frames[i+1], "\t") {
			place, _, _ = strings.Cut(place[at:], " ")
			name, _, _ := strings.Cut(strings.TrimPrefix(frames[i], "main."), "(")
			if name == "execd_cell" {
				lines = append(lines, "    at "+place)
			} else {
				lines = append(lines, "    at "+name+" ("+place+")")
			}
		}
	}
	return lines
}

func describe(err error) *event {
	var list scanner.ErrorList
	var compile *compileError
	switch {
	case errors.Is(err, errStopped):
		return failure("Interrupted", "the cell was interrupted",
			[]string{"Interrupted: the cell was interrupted"})
	case errors.As(err, &compile):
		return failure("CompilationError", compile.lines[0], compile.lines)
	case errors.As(err, &list):
		var lines []string
		for _, one := range list {
			lines = append(lines, one.Error())
		}
		return failure("CompilationError", lines[0], lines)
	}
	return failure("ExitError", err.Error(), []string{err.Error()})
}
