// Command celgo times rules as kube-apiserver runs them: each line of standard input is a case, each line of standard output its figures.
//
// Rules are compiled by the package that kube-apiserver compiles those of custom resources with, in its environment, against the types
// of their schema; they are evaluated with its view of unstructured objects, with costs tracked and limited. What it does beside that
// (metrics, the walk through the object, the wording of errors) is left out.
//
// Called by benchmarks/cel.py; `figures` has what its fields say there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// copies of a rule in one schema, by which the environment that a schema gets is told from what each of its rules takes.
const copies = 10

// testCase has the schema of one node with one rule, its value, and its old value where the rule compares with it.
type testCase struct {
	Schema    *v1.JSONSchemaProps `json:"schema"`
	Object    json.RawMessage     `json:"object"`
	OldObject json.RawMessage     `json:"oldObject"`
	Batches   int                 `json:"batches"`
	Seconds   float64             `json:"seconds"` // of each batch
}

type figures struct {
	Verdict      string    `json:"verdict"`
	Cost         uint64    `json:"cost"`
	StaticCost   uint64    `json:"static_cost"`
	Evaluation   []float64 `json:"evaluation"`  // microseconds, by batch
	Compilation  []float64 `json:"compilation"` // the same: parse, check, estimate, program
	Environments []float64 `json:"environment"` // the same, once for the rules of a schema
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c testCase
		fail(json.Unmarshal(lines.Bytes(), &c))
		f, err := run(&c)
		fail(err)
		fail(output.Encode(f))
	}
	fail(lines.Err())
}

func run(c *testCase) (*figures, error) {
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(c.Schema, &internal, nil); err != nil {
		return nil, err
	}
	node, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	many := *node
	many.XValidations = nil
	for range copies {
		many.XValidations = append(many.XValidations, node.XValidations...)
	}
	compiled, err := compile(node)
	if err != nil {
		return nil, err
	}
	activation, err := c.activation(node)
	if err != nil {
		return nil, err
	}
	// As that of a request, which can be cancelled.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	value, details, err := compiled.Program.ContextEval(ctx, activation())
	f := &figures{Cost: *details.ActualCost(), StaticCost: compiled.MaxCost}
	f.Verdict = verdict(value, err)

	f.Evaluation = c.measure(func() { compiled.Program.ContextEval(ctx, activation()) })
	one := c.measure(func() { compile(node) })
	ten := c.measure(func() { compile(&many) })
	for i := range one {
		each := (ten[i] - one[i]) / (copies - 1)
		f.Compilation = append(f.Compilation, each)
		f.Environments = append(f.Environments, one[i]-each)
	}
	return f, nil
}

// compile does what a validator does with the rules of a node, and returns what comes of the first.
func compile(node *schema.Structural) (*cel.CompilationResult, error) {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(node, model.SchemaDeclType(node, false), celconfig.PerCallLimit, base, cel.StoredExpressionsEnvLoader())
	if err != nil {
		return nil, err
	}
	if results[0].Error != nil {
		return nil, results[0].Error
	}
	return &results[0], nil
}

// variables is what upstream's own activation, which it does not export, does.
type variables struct{ self, oldSelf ref.Val }

func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case cel.ScopedVarName:
		return v.self, true
	case cel.OldScopedVarName:
		return v.oldSelf, v.oldSelf != nil
	}
	return nil, false
}

func (v *variables) Parent() interpreter.Activation { return nil }

// activation makes the variables anew for each evaluation, since values of objects are wrapped for it.
func (c *testCase) activation(node *schema.Structural) (func() interpreter.Activation, error) {
	object, err := decode(c.Object)
	if err != nil {
		return nil, err
	}
	old, err := decode(c.OldObject)
	if err != nil {
		return nil, err
	}
	optional := node.XValidations[0].OptionalOldSelf != nil && *node.XValidations[0].OptionalOldSelf
	return func() interpreter.Activation {
		v := &variables{self: cel.UnstructuredToVal(object, node)}
		if old != nil {
			v.oldSelf = cel.UnstructuredToVal(old, node)
		}
		if optional {
			if v.oldSelf == nil {
				v.oldSelf = types.OptionalNone
			} else {
				v.oldSelf = types.OptionalOf(v.oldSelf)
			}
		}
		return v
	}, nil
}

func decode(text json.RawMessage) (value any, err error) {
	if len(text) > 0 {
		err = utiljson.Unmarshal(text, &value)
	}
	return value, err
}

func verdict(value ref.Val, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(value.Value())
}

// measure gives the microseconds of a call in each batch, after one that is not counted.
func (c *testCase) measure(call func()) []float64 {
	batch := time.Duration(c.Seconds * float64(time.Second))
	count := 1
	elapsed := timed(call, count)
	for elapsed < batch/2 {
		count *= 2
		elapsed = timed(call, count)
	}
	count = max(1, int(float64(count)*batch.Seconds()/elapsed.Seconds()))
	found := make([]float64, c.Batches)
	for i := range found {
		found[i] = timed(call, count).Seconds() * 1e6 / float64(count)
	}
	return found
}

func timed(call func(), count int) time.Duration {
	began := time.Now()
	for range count {
		call()
	}
	return time.Since(began)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "celgo:", err)
		os.Exit(2)
	}
}
