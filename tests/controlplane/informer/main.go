// informer runs client-go's dynamic informers and writes down what they do: one JSON object a line on standard output.
//
//	{"did": "list", "resource": R}                       a list begins: a plain one, or a watch that begins with the objects of now
//	{"did": "add", "resource": R, "object": O}           what the handlers were told
//	{"did": "update", "resource": R, "object": O, "old": O}
//	{"did": "delete", "resource": R, "object": O}
//	{"did": "end", "resource": R, "items": [O, ...]}     the informer's store; after standard input was closed
//
// Arguments: a kubeconfig, then resources as plural.version.group. KUBE_FEATURE_WatchListClient=false lists and then watches.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type line struct {
	Did      string `json:"did"`
	Resource string `json:"resource"`
	Object   any    `json:"object,omitempty"`
	Old      any    `json:"old,omitempty"`
	Items    []any  `json:"items,omitempty"`
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

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig string, resources []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lists{next} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
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

func content(object any) any { return object.(*unstructured.Unstructured).Object }

func contents(objects []any) []any {
	found := []any{}
	for _, object := range objects {
		found = append(found, content(object))
	}
	return found
}
