// Package testing has the names of k8s.io/kubernetes/cmd/kube-apiserver/app/testing that integration tests use.
package testing

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"aggserver.test/kubernetes/server"
)

type TearDownFunc func()

// TestServerInstanceOptions are those of a server within the test's process: no field has an effect here.
type TestServerInstanceOptions struct {
	SkipHealthzCheck       bool
	EnableCertAuth         bool
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	ProxyCA                *ProxyCA
	BinaryVersion          string
	RequestTimeout         time.Duration
}

type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// TestServer has no options: tests that use them are left out. Its client of etcd is `writer`.
type TestServer struct {
	ClientConfig      *rest.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

type Logger interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Cleanup(func())
}

func NewDefaultTestServerOptions() *TestServerInstanceOptions {
	return &TestServerInstanceOptions{EnableCertAuth: true}
}

func StartTestServer(t Logger, _ *TestServerInstanceOptions, flags []string, etcd *storagebackend.Config) (TestServer, error) {
	folder, err := os.MkdirTemp(os.Getenv("INTEGRATION_SCRATCH"), "test")
	if err != nil {
		return TestServer{}, err
	}
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--authorization-") }) {
		flags = append([]string{"--authorization-mode=AlwaysAllow"}, flags...) // kube-apiserver's default, which is not ours
	}
	config, stop, err := server.Start(etcd.Prefix, flags)
	if err != nil {
		return TestServer{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return TestServer{}, err
	}
	return TestServer{
		ClientConfig:      config,
		TearDownFn:        stop,
		TmpDir:            folder,
		EtcdClient:        &clientv3.Client{KV: writer{client: client.AdmissionregistrationV1().RESTClient()}},
		EtcdStoragePrefix: etcd.Prefix,
	}, nil
}

// writer creates what a test puts into etcd in the version v1beta1, which no server takes any more: configurations of webhooks.
type writer struct {
	clientv3.KV
	client rest.Interface
}

func (w writer) Put(ctx context.Context, key, value string, _ ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	// v1 asks for one of two side effects; v1beta1 had another by default.
	body := strings.NewReplacer("admissionregistration.k8s.io/v1beta1", "admissionregistration.k8s.io/v1",
		`"sideEffects":"Unknown"`, `"sideEffects":"None"`).Replace(value)
	resource := path.Base(path.Dir(key))
	created := w.client.Post().Resource(resource).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx)
	return &clientv3.PutResponse{}, created.Error()
}

func StartTestServerOrDie(
	t testing.TB, instance *TestServerInstanceOptions, flags []string, etcd *storagebackend.Config,
) *TestServer {
	started, err := StartTestServer(t, instance, flags, etcd)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &started
}
