// cell.go - compiled into every cell: brings the variables back, runs the cell, tells what they
// are then.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"syscall"
	"unsafe"
)

const (
	execd_fd_reports, execd_fd_state = 3, 4

	execd_state_max = 256 << 20
)

type execd_variable struct {
	Name string
	At   any // a pointer to it
}

type execd_report struct {
	Type  string
	Kind  string   `json:",omitempty"`
	Data  string   `json:",omitempty"`
	Stack string   `json:",omitempty"`
	Kept  []string `json:",omitempty"`
	State []byte   `json:",omitempty"`
}

func execd_tell(r execd_report) {
	line, _ := json.Marshal(r)
	_, _ = os.NewFile(execd_fd_reports, "reports").Write(append(line, '\n'))
}

func execd_display(kind, data string) {
	execd_tell(execd_report{Type: "display", Kind: kind, Data: data})
}

func execd_show(v any) {
	if v != nil {
		execd_tell(execd_report{Type: "result", Data: fmt.Sprintf("%+v", v)})
	}
}

func main() {
	syscall.CloseOnExec(execd_fd_reports)
	syscall.CloseOnExec(execd_fd_state)
	state, _ := io.ReadAll(os.NewFile(execd_fd_state, "state"))
	execd_load(state)
	failed := execd_run()
	execd_save()
	if failed {
		os.Exit(2)
	}
}

func execd_run() (failed bool) {
	defer func() {
		if r := recover(); r != nil {
			failed = true
			execd_tell(execd_report{Type: "panic", Data: fmt.Sprint(r), Stack: string(debug.Stack())})
		}
	}()
	execd_remake()
	execd_cell()
	return false
}

// --- values ---
//
// A value is a 0 when it is the zero value of its type, or a 1 and what it is made of. Variables
// come first among the things that are pointed to, so that a pointer to one finds it again.

type execd_coder interface{ GobEncode() ([]byte, error) }
type execd_decoder interface{ GobDecode([]byte) error }
type execd_marshaler interface{ MarshalBinary() ([]byte, error) }
type execd_unmarshaler interface{ UnmarshalBinary([]byte) error }

type execd_place struct {
	at   unsafe.Pointer
	kind reflect.Type
}

var execd_basic = []any{
	(*bool)(nil), (*int)(nil), (*int8)(nil), (*int16)(nil), (*int32)(nil), (*int64)(nil),
	(*uint)(nil), (*uint8)(nil), (*uint16)(nil), (*uint32)(nil), (*uint64)(nil),
	(*float32)(nil), (*float64)(nil), (*complex128)(nil), (*string)(nil),
	(*[]any)(nil), (*map[string]any)(nil), (*[]string)(nil), (*[]int)(nil), (*[]byte)(nil),
	(*map[string]string)(nil),
}

// What an interface may hold: by name.
func execd_types() map[string]reflect.Type {
	found := map[string]reflect.Type{}
	for _, p := range append(append([]any{}, execd_basic...), execd_kinds...) {
		t := reflect.TypeOf(p)
		found[t.String()], found[t.Elem().String()] = t, t.Elem()
	}
	return found
}

// Whether its fields are for us to read: those of others may be of no use elsewhere.
func execd_open(t reflect.Type) bool {
	for i := 0; i < t.NumField(); i++ {
		if f := t.Field(i); f.PkgPath != "" && f.PkgPath != "main" {
			return false
		}
	}
	return true
}

func execd_field(v reflect.Value, i int) reflect.Value {
	f := v.Field(i)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

func execd_copy(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

type execd_refusal string

// --- to bytes ---

type execd_writer struct {
	b     []byte
	seen  map[execd_place]uint64
	order []execd_place
	types map[string]reflect.Type
}

func (w *execd_writer) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *execd_writer) bytes(b []byte) {
	w.number(uint64(len(b)))
	w.b = append(w.b, b...)
	if len(w.b) > execd_state_max {
		panic(execd_refusal("too large"))
	}
}

func (w *execd_writer) value(v reflect.Value) {
	if v.IsZero() {
		w.number(0)
		return
	}
	w.number(1)
	v = execd_copy(v)
	if v.Type().PkgPath() != "" && v.Type().PkgPath() != "main" && v.Kind() != reflect.Interface {
		switch c := v.Addr().Interface().(type) {
		case execd_coder:
			if _, ok := c.(execd_decoder); ok {
				w.encoded(c.GobEncode())
				return
			}
		case execd_marshaler:
			if _, ok := c.(execd_unmarshaler); ok {
				w.encoded(c.MarshalBinary())
				return
			}
		}
	}
	w.parts(v)
}

func (w *execd_writer) encoded(b []byte, err error) {
	if err != nil {
		panic(execd_refusal(err.Error()))
	}
	w.bytes(b)
}

func (w *execd_writer) parts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.number(v.Uint())
	case reflect.Float32, reflect.Float64:
		w.number(math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		w.number(math.Float64bits(real(v.Complex())))
		w.number(math.Float64bits(imag(v.Complex())))
	case reflect.String:
		w.bytes([]byte(v.String()))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.bytes(v.Bytes())
			return
		}
		w.number(uint64(v.Len()))
		w.elements(v)
	case reflect.Array:
		w.elements(v)
	case reflect.Map:
		w.number(uint64(v.Len()))
		for i := v.MapRange(); i.Next(); {
			w.value(i.Key())
			w.value(i.Value())
		}
	case reflect.Struct:
		if !execd_open(v.Type()) {
			panic(execd_refusal("fields of others"))
		}
		w.number(uint64(v.NumField()))
		for i := 0; i < v.NumField(); i++ {
			w.bytes([]byte(v.Type().Field(i).Name + " " + v.Type().Field(i).Type.String()))
			w.value(execd_field(v, i))
		}
	case reflect.Pointer:
		w.pointer(v)
	case reflect.Interface:
		w.held(v.Elem())
	default:
		panic(execd_refusal(v.Kind().String()))
	}
}

// What an interface holds. Of an error of others its text is left.
func (w *execd_writer) held(v reflect.Value) {
	name := v.Type().String()
	if w.types[name] == v.Type() {
		w.bytes([]byte(name))
		w.value(v)
	} else if err, ok := v.Interface().(error); ok {
		w.bytes(nil)
		w.bytes([]byte(err.Error()))
	} else {
		panic(execd_refusal("a type without a name"))
	}
}

func (w *execd_writer) elements(v reflect.Value) {
	for i := 0; i < v.Len(); i++ {
		w.value(v.Index(i))
	}
	w.bytes(nil)
}

func (w *execd_writer) pointer(v reflect.Value) {
	place := execd_place{v.UnsafePointer(), v.Type()}
	if n, found := w.seen[place]; found {
		w.number(n << 1)
		return
	}
	n := w.add(place)
	w.number(n<<1 | 1) // here it is
	w.value(v.Elem())
}

func (w *execd_writer) add(place execd_place) uint64 {
	w.order = append(w.order, place)
	w.seen[place] = uint64(len(w.order))
	return uint64(len(w.order))
}

// The variable, or nothing of it.
func (w *execd_writer) variable(v execd_variable) (kept bool) {
	at, known := len(w.b), len(w.order)
	defer func() {
		if r := recover(); r != nil {
			for _, place := range w.order[known:] {
				delete(w.seen, place)
			}
			w.b, w.order, kept = w.b[:at], w.order[:known], false
		}
	}()
	w.bytes([]byte(v.Name))
	w.bytes([]byte(reflect.TypeOf(v.At).Elem().String()))
	mark := len(w.b)
	w.b = append(w.b, make([]byte, 8)...)
	w.value(reflect.ValueOf(v.At).Elem())
	binary.LittleEndian.PutUint64(w.b[mark:], uint64(len(w.b)-mark-8))
	return true
}

func execd_save() {
	var kept []string
	w := &execd_writer{seen: map[execd_place]uint64{}, types: execd_types()}
	variables := execd_variables()
	w.number(uint64(len(variables)))
	for _, v := range variables { // a pointer to one is told as its number
		w.bytes([]byte(v.Name))
		w.add(execd_place{reflect.ValueOf(v.At).UnsafePointer(), reflect.TypeOf(v.At)})
	}
	for _, v := range variables {
		if w.variable(v) {
			kept = append(kept, v.Name)
		}
	}
	execd_tell(execd_report{Type: "state", Kept: kept, State: w.b})
}

// --- and back ---

type execd_reader struct {
	b     []byte
	seen  map[uint64]reflect.Value
	types map[string]reflect.Type
}

func (r *execd_reader) number() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		panic(execd_refusal("cut short"))
	}
	r.b = r.b[used:]
	return n
}

func (r *execd_reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		panic(execd_refusal("cut short"))
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// Sets v, which can be set.
func (r *execd_reader) value(v reflect.Value) {
	if r.number() == 0 {
		v.Set(reflect.Zero(v.Type()))
		return
	}
	if v.Type().PkgPath() != "" && v.Type().PkgPath() != "main" && v.Kind() != reflect.Interface {
		_, codes := v.Addr().Interface().(execd_coder)
		_, marshals := v.Addr().Interface().(execd_marshaler)
		if c, ok := v.Addr().Interface().(execd_decoder); ok && codes {
			_ = c.GobDecode(r.bytes())
			return
		} else if c, ok := v.Addr().Interface().(execd_unmarshaler); ok && marshals && !codes {
			_ = c.UnmarshalBinary(r.bytes())
			return
		}
	}
	r.parts(v)
}

func (r *execd_reader) parts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.number()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(r.number())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(math.Float64frombits(r.number()))
	case reflect.Complex64, reflect.Complex128:
		re := math.Float64frombits(r.number())
		v.SetComplex(complex(re, math.Float64frombits(r.number())))
	case reflect.String:
		v.SetString(string(r.bytes()))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(r.bytes())
			return
		}
		n := int(r.number())
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		r.elements(v)
	case reflect.Array:
		r.elements(v)
	case reflect.Map:
		r.pairs(v)
	case reflect.Struct:
		r.fields(v)
	case reflect.Pointer:
		r.pointer(v)
	case reflect.Interface:
		name := string(r.bytes())
		if name == "" {
			v.Set(reflect.ValueOf(errors.New(string(r.bytes()))))
			return
		}
		held := reflect.New(r.types[name]).Elem()
		r.value(held)
		v.Set(held)
	}
}

func (r *execd_reader) elements(v reflect.Value) {
	for i := 0; i < v.Len(); i++ {
		r.value(v.Index(i))
	}
	r.bytes()
}

func (r *execd_reader) pairs(v reflect.Value) {
	n := int(r.number())
	v.Set(reflect.MakeMapWithSize(v.Type(), n))
	for i := 0; i < n; i++ {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		r.value(key)
		r.value(value)
		v.SetMapIndex(key, value)
	}
}

// A type that was declared anew must have the same fields: its values are made anew otherwise.
func (r *execd_reader) fields(v reflect.Value) {
	if int(r.number()) != v.NumField() {
		panic(execd_refusal("another type"))
	}
	for i := 0; i < v.NumField(); i++ {
		f := v.Type().Field(i)
		if string(r.bytes()) != f.Name+" "+f.Type.String() {
			panic(execd_refusal("another type"))
		}
		r.value(execd_field(v, i))
	}
}

// What it points to may have been lost, with the variable that was told first: then it is nil.
func (r *execd_reader) pointer(v reflect.Value) {
	n := r.number()
	if n&1 == 0 {
		if found, ok := r.seen[n>>1]; ok && found.Type() == v.Type() {
			v.Set(found)
		}
		return
	}
	made := reflect.New(v.Type().Elem())
	r.seen[n>>1] = made
	v.Set(made)
	r.value(made.Elem())
}

func (r *execd_reader) variable(at map[string]reflect.Value) {
	v, found := at[string(r.bytes())]
	name := string(r.bytes())
	n := binary.LittleEndian.Uint64(r.b)
	rest := r.b[8+n:]
	r.b = r.b[8 : 8+n]
	defer func() {
		_ = recover() // it keeps its zero value
		r.b = rest
	}()
	if found && v.Type().Elem().String() == name {
		r.value(v.Elem())
	}
}

func execd_load(state []byte) {
	if len(state) == 0 {
		return
	}
	r := &execd_reader{b: state, types: execd_types(), seen: map[uint64]reflect.Value{}}
	at := map[string]reflect.Value{}
	for _, v := range execd_variables() {
		at[v.Name] = reflect.ValueOf(v.At)
	}
	for i, n := uint64(1), r.number(); i <= n; i++ {
		if v, found := at[string(r.bytes())]; found {
			r.seen[i] = v
		}
	}
	for len(r.b) > 0 {
		r.variable(at)
	}
}
