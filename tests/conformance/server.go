// Package fixtures: k8s.io/apiextensions-apiserver/test/integration/fixtures/server.go, but for a server that runs already.
//
// tests/conformance copies it over upstream's file of that name, which starts an apiextensions-apiserver for each test. Here
// the server is that of $KUBECONFIG, and stays: what a test left behind is removed when the next one asks for a server. Tests
// that look into the server's etcd find it at $KUBE_INTEGRATION_ETCD_URL, under the prefix that is upstream's default here; where
// that is not set, they are skipped. The functions and their signatures are those that upstream's tests call.
package fixtures

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	serveroptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const cleanup = "customresourcecleanup.apiextensions.k8s.io"

var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// StartDefaultServer gives a config for the running server. It skips a test that wants another one.
func StartDefaultServer(t servertesting.Logger, flags ...string) (func(), *rest.Config, *serveroptions.CustomResourceDefinitionsServerOptions, error) {
	for _, flag := range flags {
		if !strings.HasPrefix(flag, "--watch-cache=") {
			skip(t, "wants a server of its own: "+flag)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, nil, nil, err
	}
	config.QPS, config.Burst = -1, -1
	if err := removeDefinitions(config); err != nil {
		return nil, nil, nil, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &namespaceMaker{next, config} })
	options := serveroptions.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	options.RecommendedOptions.Etcd.StorageConfig.Transport.ServerList = IntegrationEtcdServers()
	return func() {}, config, options, nil
}

// StartDefaultServerWithConfigAccess gives a config that says of the running server where its etcd is, and nothing else.
func StartDefaultServerWithConfigAccess(t servertesting.Logger, flags ...string) (func(), *rest.Config, apiserver.CompletedConfig, error) {
	tearDown, config, options, err := StartDefaultServer(t, flags...)
	if err != nil {
		return nil, nil, apiserver.CompletedConfig{}, err
	}
	skipWithoutEtcd(t)
	made := apiserver.Config{GenericConfig: genericapiserver.NewRecommendedConfig(apiserver.Codecs)}
	made.GenericConfig.RESTOptionsGetter = serveroptions.NewCRDRESTOptionsGetter(*options.RecommendedOptions.Etcd, nil, nil)
	made.GenericConfig.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	made.GenericConfig.ExternalAddress = "localhost:443" // it asks for one, and uses it for nothing here
	return tearDown, config, made.Complete(), nil
}

// StartDefaultServerWithClients gives clients for the running server.
func StartDefaultServerWithClients(t servertesting.Logger, flags ...string) (func(), clientset.Interface, dynamic.Interface, error) {
	tearDown, config, _, err := StartDefaultServer(t, flags...)
	if err != nil {
		return nil, nil, nil, err
	}
	definitions, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, nil, nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, nil, err
	}
	return tearDown, definitions, objects, nil
}

// StartDefaultServerWithClientsAndEtcd gives clients for the running server and for its etcd, and the prefix of its keys there.
func StartDefaultServerWithClientsAndEtcd(t servertesting.Logger, flags ...string) (func(), clientset.Interface, dynamic.Interface, *clientv3.Client, string, error) {
	tearDown, definitions, objects, err := StartDefaultServerWithClients(t, flags...)
	if err != nil {
		return nil, nil, nil, nil, "", err
	}
	skipWithoutEtcd(t)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: IntegrationEtcdServers(), DialTimeout: 20 * time.Second})
	if err != nil {
		return nil, nil, nil, nil, "", err
	}
	options := serveroptions.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	return tearDown, definitions, objects, etcd, options.RecommendedOptions.Etcd.StorageConfig.Prefix, nil
}

// IntegrationEtcdServers returns the etcd of the running server; none if it has another storage.
func IntegrationEtcdServers() []string {
	if url := os.Getenv("KUBE_INTEGRATION_ETCD_URL"); url != "" {
		return []string{url}
	}
	return nil
}

func skipWithoutEtcd(t servertesting.Logger) {
	if len(IntegrationEtcdServers()) == 0 {
		skip(t, "looks into etcd")
	}
}

func skip(t servertesting.Logger, why string) {
	if test, ok := t.(testing.TB); ok {
		test.Skip(why)
	}
}

// removeDefinitions deletes every definition and waits until all are gone. Finalizers that a test left behind are taken
// off.
func removeDefinitions(config *rest.Config) error {
	definitions, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	client := definitions.ApiextensionsV1().CustomResourceDefinitions()
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, crd := range list.Items {
			if crd.DeletionTimestamp == nil {
				// A definition whose webhook is gone could not read its objects.
				conversion := []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
				_, _ = client.Patch(ctx, crd.Name, types.MergePatchType, conversion, metav1.PatchOptions{})
				_ = client.Delete(ctx, crd.Name, metav1.DeleteOptions{})
				continue
			}
			if !slices.Contains(crd.Finalizers, cleanup) {
				_, _ = client.Patch(ctx, crd.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
			}
			for _, version := range crd.Spec.Versions {
				release(ctx, objects.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version.Name, Resource: crd.Spec.Names.Plural}))
			}
		}
		return len(list.Items) == 0, nil
	})
}

func release(ctx context.Context, resource dynamic.NamespaceableResourceInterface) {
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, object := range list.Items {
		if len(object.GetFinalizers()) > 0 {
			_, _ = resource.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.MergePatchType, noFinalizers, metav1.PatchOptions{})
		}
	}
}

// namespaceMaker makes the namespaces that requests name: upstream's server of these tests knows no namespaces, and its tests
// write into them without making them first.
type namespaceMaker struct {
	next   http.RoundTripper
	config *rest.Config
}

var inNamespace = regexp.MustCompile(`/namespaces/([^/]+)/`)

func (m *namespaceMaker) RoundTrip(request *http.Request) (*http.Response, error) {
	found := inNamespace.FindStringSubmatch(request.URL.Path)
	if found != nil && (request.Method == http.MethodPost || request.Method == http.MethodPatch) {
		plain := rest.CopyConfig(m.config)
		plain.WrapTransport = nil
		client, err := dynamic.NewForConfig(plain)
		if err != nil {
			return nil, err
		}
		namespace := &unstructured.Unstructured{}
		namespace.SetAPIVersion("v1")
		namespace.SetKind("Namespace")
		namespace.SetName(found[1])
		// One that is there already is as good.
		_, _ = client.Resource(namespaces).Create(request.Context(), namespace, metav1.CreateOptions{})
	}
	return m.next.RoundTrip(request)
}
