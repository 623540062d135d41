// informer runs client-go's informers and writes down what they do: one JSON object a line on standard output.
//
//	{"did": "list", "resource": R}                       a list begins: a plain one, or a watch that begins with the objects of now
//	{"did": "add", "resource": R, "object": O}           what the handlers were told
//	{"did": "update", "resource": R, "object": O, "old": O}
//	{"did": "delete", "resource": R, "object": O}
//	{"did": "end", "resource": R, "items": [O, ...]}     the informer's store; after standard input was closed
//
// Arguments: a kubeconfig, then resources as plural.version.group. KUBE_FEATURE_WatchListClient=false lists and then watches.
// The informers are those of whole objects; with -metadata before the kubeconfig those of metadata alone, as the garbage
// collector has them, and then the form of each answer is written down too:
//
//	{"did": "answer", "resource": R, "form": "application/..."}
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Did      string `json:"did"`
	Resource string `json:"resource"`
	Object   any    `json:"object,omitempty"`
	Old      any    `json:"old,omitempty"`
	Items    []any  `json:"items,omitempty"`
	Form     string `json:"form,omitempty"`
}

var (
	writing sync.Mutex
	output  = json.NewEncoder(os.Stdout)
)

func write(said line) {
	writing.Lock()
	defer writing.Unlock()
	if err := output.Encode(said); err != nil {
		os.Exit(1) // nobody reads any more
	}
}

// lists writes down the requests by which an informer begins anew.
type lists struct{ next http.RoundTripper }

func (l lists) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
		write(line{Did: "list", Resource: path.Base(request.URL.Path)})
	}
	return l.next.RoundTrip(request)
}

// forms writes down what answers are written in.
type forms struct{ next http.RoundTripper }

func (f forms) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(request)
	if err == nil {
		write(line{Did: "answer", Resource: path.Base(request.URL.Path), Form: response.Header.Get("Content-Type")})
	}
	return response, err
}

// factory is what the factories of both kinds of informers have.
type factory interface {
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	Start(<-chan struct{})
	Shutdown()
}

func newFactory(config *rest.Config, ofMetadata bool) (factory, error) {
	if ofMetadata {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return forms{next} })
		client, err := metadata.NewForConfig(config)
		return metadatainformer.NewSharedInformerFactory(client, 0), err
	}
	client, err := dynamic.NewForConfig(config)
	return dynamicinformer.NewDynamicSharedInformerFactory(client, 0), err
}

func main() {
	arguments := os.Args[1:]
	ofMetadata := arguments[0] == "-metadata"
	if ofMetadata {
		arguments = arguments[1:]
	}
	if err := run(arguments[0], arguments[1:], ofMetadata); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string, resources []string, ofMetadata bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lists{next} })
	factory, err := newFactory(config, ofMetadata)
	if err != nil {
		return err
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, name := range resources {
		resource, _ := schema.ParseResourceArg(name)
		if resource == nil {
			return fmt.Errorf("%s is not plural.version.group", name)
		}
		informer := factory.ForResource(*resource).Informer()
		if _, err := informer.AddEventHandler(handlers(resource.Resource)); err != nil {
			return err
		}
		informers[resource.Resource] = informer
	}
	stop := make(chan struct{})
	factory.Start(stop)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	close(stop)
	factory.Shutdown()
	for name, informer := range informers {
		write(line{Did: "end", Resource: name, Items: contents(informer.GetStore().List())})
	}
	return nil
}

func handlers(resource string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { write(line{Did: "add", Resource: resource, Object: content(object)}) },
		UpdateFunc: func(old, object any) {
			write(line{Did: "update", Resource: resource, Object: content(object), Old: content(old)})
		},
		DeleteFunc: func(object any) {
			// The informer did not see the deletion, but a list without the object.
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			write(line{Did: "delete", Resource: resource, Object: content(object)})
		},
	}
}

func content(object any) any {
	if whole, ok := object.(*unstructured.Unstructured); ok {
		return whole.Object
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object.(*metav1.PartialObjectMetadata))
	if err != nil {
		panic(err)
	}
	return converted
}

func contents(objects []any) []any {
	found := []any{}
	for _, object := range objects {
		found = append(found, content(object))
	}
	return found
}
