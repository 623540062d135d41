// merger runs structured-merge-diff on what it is given, one JSON object a line, and prints what came of it, one a line.
//
//	{"do": "validate", "schema": S, "live": V}              {"error": "..."}
//	{"do": "fields", "schema": S, "live": V}                {"fields": F}
//	{"do": "compare", "schema": S, "live": V, "new": V}     {"removed": F, "modified": F, "added": F}
//	{"do": "merge", "schema": S, "live": V, "new": V}       {"object": V}
//	{"do": "remove", "schema": S, "live": V, "fields": F}   {"object": V}
//	{"do": "reconcile", "schema": S, "live": V, "fields": F}   {"fields": F}
//	{"do": "update", "schema": S, "live": V, "new": V, "managers": M, "manager": "a"}                    {"managers": M}
//	{"do": "apply", "schema": S, "live": V, "new": V, "managers": M, "manager": "a", "force": B}   {"object": V, "managers": M}
//
// S is an openAPIV3Schema, null to have types deduced; M is manager -> {"fields": F, "applied": B}; conflicts are a list of
// "manager path". All is of one version. Types are made of the schema as kube-apiserver makes them, by kube-openapi's schemaconv.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"

	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

type owned struct {
	Fields  json.RawMessage `json:"fields"`
	Applied bool            `json:"applied"`
}

type question struct {
	Do       string           `json:"do"`
	Schema   *spec.Schema     `json:"schema"`
	Live     any              `json:"live"`
	New      any              `json:"new"`
	Fields   json.RawMessage  `json:"fields"`
	Managers map[string]owned `json:"managers"`
	Manager  string           `json:"manager"`
	Force    bool             `json:"force"`
}

type answer map[string]any

const version = "v1"

// same is the converter where there is one version.
type same struct{}

func (same) Convert(object *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return object, nil
}

func (same) IsMissingVersionError(error) bool { return false }

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for in.Scan() {
		var q question
		decoder := json.NewDecoder(bytes.NewReader(in.Bytes()))
		decoder.UseNumber()
		said := answer{}
		if err := decoder.Decode(&q); err != nil {
			said["failed"] = err.Error()
		} else if said, err = q.answer(); err != nil {
			said = answer{"error": err.Error()}
		}
		text, err := json.Marshal(said)
		if err != nil {
			text, _ = json.Marshal(answer{"failed": err.Error()})
		}
		fmt.Fprintln(out, string(text))
		out.Flush()
	}
}

func (q *question) kind() (typed.ParseableType, error) {
	if q.Schema == nil {
		return typed.DeducedParseableType, nil
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{"root": q.Schema}, false)
	if err != nil {
		return typed.ParseableType{}, err
	}
	parser := typed.Parser{Schema: schema.Schema{Types: types.Types}}
	return parser.Type("root"), nil
}

func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return value
}

func set(fields json.RawMessage) (*fieldpath.Set, error) {
	found := fieldpath.NewSet()
	return found, found.FromJSON(bytes.NewReader(fields))
}

func text(fields *fieldpath.Set) json.RawMessage {
	made, err := fields.ToJSON()
	if err != nil {
		panic(err)
	}
	return made
}

func (q *question) answer() (answer, error) {
	kind, err := q.kind()
	if err != nil {
		return nil, err
	}
	if q.Do == "validate" {
		_, err := kind.FromUnstructured(numbers(q.Live))
		return answer{}, err
	}
	live, err := kind.FromUnstructured(numbers(q.Live), typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	switch q.Do {
	case "fields":
		fields, err := live.ToFieldSet()
		if err != nil {
			return nil, err
		}
		return answer{"fields": text(fields)}, nil
	case "remove", "reconcile":
		return q.cut(live)
	}
	options := []typed.ValidationOptions{typed.AllowDuplicates}
	if q.Do == "apply" || q.Do == "merge" {
		options = nil
	}
	new, err := kind.FromUnstructured(numbers(q.New), options...)
	if err != nil {
		return nil, err
	}
	switch q.Do {
	case "compare":
		found, err := live.Compare(new)
		if err != nil {
			return nil, err
		}
		return answer{"removed": text(found.Removed), "modified": text(found.Modified), "added": text(found.Added)}, nil
	case "merge":
		merged, err := live.Merge(new)
		if err != nil {
			return nil, err
		}
		return answer{"object": merged.AsValue().Unstructured()}, nil
	}
	return q.write(live, new)
}

func (q *question) cut(live *typed.TypedValue) (answer, error) {
	fields, err := set(q.Fields)
	if err != nil {
		return nil, err
	}
	if q.Do == "remove" {
		return answer{"object": live.RemoveItems(fields).AsValue().Unstructured()}, nil
	}
	reconciled, err := typed.ReconcileFieldSetWithSchema(fields, live)
	if err != nil {
		return nil, err
	}
	if reconciled == nil {
		reconciled = fields
	}
	return answer{"fields": text(reconciled)}, nil
}

func (q *question) write(live, new *typed.TypedValue) (answer, error) {
	managers := fieldpath.ManagedFields{}
	for name, each := range q.Managers {
		fields, err := set(each.Fields)
		if err != nil {
			return nil, err
		}
		managers[name] = fieldpath.NewVersionedSet(fields, version, each.Applied)
	}
	updater := &merge.Updater{Converter: same{}}
	var object *typed.TypedValue
	var err error
	if q.Do == "update" {
		_, managers, err = updater.Update(live, new, version, managers, q.Manager)
	} else {
		object, managers, err = updater.Apply(live, new, version, managers, q.Manager, q.Force)
	}
	var conflicts merge.Conflicts
	if errors.As(err, &conflicts) {
		told := []string{}
		for _, each := range conflicts {
			told = append(told, each.Manager+" "+each.Path.String())
		}
		sort.Strings(told)
		return answer{"conflicts": told}, nil
	}
	if err != nil {
		return nil, err
	}
	left := map[string]owned{}
	for name, each := range managers {
		left[name] = owned{text(each.Set()), each.Applied()}
	}
	said := answer{"managers": left}
	if object != nil {
		said["object"] = object.AsValue().Unstructured()
	}
	return said, nil
}
