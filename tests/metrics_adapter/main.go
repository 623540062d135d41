// The server of custom-metrics-apiserver with the provider of its test-adapter, whose main differs in one thing: it takes numbers
// at port 8080 of every address, and this one at --write-address.
package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	fakeprov "sigs.k8s.io/custom-metrics-apiserver/test-adapter/provider"
)

func check(err error) {
	if err != nil {
		klog.Fatal(err)
	}
}

func main() {
	adapter := &basecmd.AdapterBase{Name: "test-adapter"}
	address := adapter.Flags().String("write-address", "", "address and port that take numbers")
	check(adapter.Flags().Parse(os.Args))
	client, err := adapter.DynamicClient()
	check(err)
	mapper, err := adapter.RESTMapper()
	check(err)
	numbers, writes := fakeprov.NewFakeProvider(client, mapper)
	adapter.WithCustomMetrics(numbers)
	adapter.WithExternalMetrics(numbers)
	container := restful.NewContainer()
	container.Add(writes)
	go func() {
		server := &http.Server{Addr: *address, Handler: container, ReadHeaderTimeout: 3 * time.Second}
		klog.Fatal(server.ListenAndServe())
	}()
	check(adapter.Run(context.Background()))
}
