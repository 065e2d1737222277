//go:build go1.23

package opensandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file runs the cases of sdks/conformance; its README says how. server.py judges requests and
// results.

const caseTime = 2 * time.Minute

// referee is server.py.
type referee struct{ control string }

func startReferee(t *testing.T) *referee {
	command := exec.Command("python3", filepath.Join("..", "conformance", "server.py"))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	must(t, err)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		input.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(output).ReadBytes('\n')
	must(t, err)
	var hello struct{ Control string }
	must(t, json.Unmarshal(line, &hello))
	return &referee{hello.Control}
}

// call is one call of the control API.
func (r *referee) call(method, path string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, r.control+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %v", method, path, answer, err)
	}
	return json.Unmarshal(answer, out)
}

type verdict struct {
	OK              bool
	Problems        []string
	OpenConnections int `json:"open_connections"`
}

// absent says that Go has no such operation, or cannot express its arguments.
type absent string

func (a absent) Error() string { return string(a) }

// runCase runs the steps of a case and reports them.
func (r *referee) runCase(t *testing.T, id, mode string, names args) {
	var made struct {
		Session string
		Case    struct {
			Env    map[string]string
			Config args
			Steps  []struct {
				Do   string
				With args
			}
		}
	}
	body := args{"case": id, "mode": mode}
	if names != nil {
		body["names"] = names
	}
	must(t, r.call("POST", "/sessions", body, &made))
	for _, name := range []string{EnvDomain, EnvProtocol, EnvAPIKey} {
		t.Setenv(name, made.Case.Env[name])
	}
	ctx, cancel := context.WithTimeout(context.Background(), caseTime)
	defer cancel()
	world := &operations{settings: made.Case.Config}
	for n, step := range made.Case.Steps {
		result, err := world.run(ctx, step.Do, step.With)
		var missing absent
		if errors.As(err, &missing) {
			world.close()
			t.Skip(missing)
		}
		report := args{"result": result}
		if err != nil {
			report = args{"error": errorForm(err)}
		}
		var said verdict
		must(t, r.call("POST", fmt.Sprintf("/sessions/%s/steps/%d", made.Session, n), report, &said))
		if !said.OK {
			t.Logf("step %d, %s: %v", n, step.Do, err)
		}
	}
	world.close()
	var end verdict
	must(t, r.call("POST", "/sessions/"+made.Session+"/finish", args{}, &end))
	if !end.OK || end.OpenConnections != 0 {
		t.Errorf("%s; %d connections are open", strings.Join(end.Problems, "; "), end.OpenConnections)
	}
}

func (r *referee) runAll(t *testing.T, mode string, names args) {
	var list struct {
		Cases []struct {
			ID    string
			Modes []string
		}
	}
	must(t, r.call("GET", "/cases", nil, &list))
	for _, row := range list.Cases {
		if strings.Contains(strings.Join(row.Modes, " "), mode) {
			t.Run(row.ID, func(t *testing.T) { r.runCase(t, row.ID, mode, names) })
		}
	}
}

func TestCasesScripted(t *testing.T) {
	if exec.Command("python3", "-c", "import yaml").Run() != nil {
		t.Skip("server.py needs python3 with yaml")
	}
	startReferee(t).runAll(t, "scripted", nil)
}

func TestCasesReal(t *testing.T) {
	domain, key := os.Getenv(EnvDomain), os.Getenv(EnvAPIKey)
	if domain == "" {
		t.Skip("OPEN_SANDBOX_DOMAIN names no server")
	}
	startReferee(t).runAll(t, "real", args{"image": "host",
		"config": args{"domain": domain, "api_key": key}})
}

// errorForm is the neutral form of an error.
func errorForm(err error) args {
	form := args{"class": "internal", "code": nil, "message": err.Error()}
	var api *APIError
	var argument *InvalidArgumentError
	var unhealthy *SandboxUnhealthyError
	var late *SandboxReadyTimeoutError
	switch {
	case errors.As(err, &argument):
		form["class"] = "invalid_argument"
	case errors.As(err, &unhealthy):
		form["class"], form["code"] = "unhealthy", "UNHEALTHY"
	case errors.As(err, &late):
		form["class"], form["code"] = "ready_timeout", "READY_TIMEOUT"
	case errors.As(err, &api):
		form["class"], form["code"] = "api", api.Response.Code
		form["message"], form["status"] = api.Response.Message, api.StatusCode
		form["request_id"], form["retry_after_s"] = api.RequestID, api.RetryAfter.Seconds()
	case errors.Is(err, ErrStreamEnded):
		form["code"] = "STREAM_ENDED"
	}
	return form
}
