// Package rules: what k8s.io/kubernetes/test/integration/apiserver/crd_validation_expressions_test.go takes from the packages
// cmd/kube-apiserver/app/testing and test/integration/framework, but for the server of $KUBECONFIG.
//
// tests/conformance puts it beside upstream's test and points the test's imports here.
package rules

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/client-go/rest"

	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	"k8s.io/apiextensions-apiserver/test/integration/fixtures"
)

// TestServer is the server that runs already. Of an etcd it knows where $KUBE_INTEGRATION_ETCD_URL names one.
type TestServer struct {
	ClientConfig      *rest.Config
	TearDownFn        func()
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// NewDefaultTestServerOptions gives none.
func NewDefaultTestServerOptions() any { return nil }

// SharedEtcd gives none.
func SharedEtcd() any { return nil }

// StartTestServer gives a config for the running server, from which the definitions of the test before are gone.
func StartTestServer(t servertesting.Logger, _ any, flags []string, _ any) (TestServer, error) {
	tearDown, config, options, err := fixtures.StartDefaultServer(t, flags...)
	if err != nil {
		return TestServer{}, err
	}
	server := TestServer{ClientConfig: config, TearDownFn: tearDown}
	if urls := fixtures.IntegrationEtcdServers(); len(urls) > 0 {
		server.EtcdStoragePrefix = options.RecommendedOptions.Etcd.StorageConfig.Prefix
		server.EtcdClient, err = clientv3.New(clientv3.Config{Endpoints: urls, DialTimeout: 20 * time.Second})
	}
	return server, err
}
