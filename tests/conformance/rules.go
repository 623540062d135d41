// Package rules: what k8s.io/kubernetes/test/integration/apiserver/crd_validation_expressions_test.go takes from the packages
// cmd/kube-apiserver/app/testing and test/integration/framework, but for the server of $KUBECONFIG.
//
// tests/conformance puts it beside upstream's test and points the test's imports here.
package rules

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/client-go/rest"

	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	"k8s.io/apiextensions-apiserver/test/integration/fixtures"
)

// TestServer is the server that runs already. It has no etcd to look into.
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
	tearDown, config, _, err := fixtures.StartDefaultServer(t, flags...)
	return TestServer{ClientConfig: config, TearDownFn: tearDown}, err
}
