// Of the package framework of k8s.io/kubernetes' integration tests, what starts etcd and a server; its other files are beside this.
package framework

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"

	"aggserver.test/kubernetes/server"
)

// TestServerSetup changes the options and the configuration of a server. What has no flag here, the test is skipped for.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
}

type TearDownFunc func()

// EtcdMain runs the tests. Nothing has to be started before: each server has data of its own.
func EtcdMain(tests func() int) {
	flag.Parse()
	os.Exit(tests())
}

// GetEtcdURL is in the configuration of a storage, whose prefix alone is used.
func GetEtcdURL() string { return "http://127.0.0.1:2379" }

func StartTestServer(ctx context.Context, t testing.TB, setup TestServerSetup) (kubernetes.Interface, *rest.Config, TearDownFunc) {
	t.Helper()
	if setup.ModifyServerConfig != nil {
		t.Skip("needs the server within its process: ModifyServerConfig")
	}
	wanted := options.NewServerRunOptions()
	wanted.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	wanted.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	wanted.Authorization.Modes = []string{"Node", "RBAC"}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(wanted)
	}
	prefix := wanted.Etcd.StorageConfig.Prefix
	if prefix == options.NewServerRunOptions().Etcd.StorageConfig.Prefix {
		prefix = uuid.New().String()
	}
	config, stop, err := server.Start(prefix, flagsOf(t, wanted))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config, stop
}

// flagsOf says what a test has changed in flags that have an effect here.
func flagsOf(t testing.TB, wanted *options.ServerRunOptions) []string {
	if wanted.Authentication.TokenFile != nil && wanted.Authentication.TokenFile.TokenFile != "" {
		t.Skip("needs --token-auth-file")
	}
	if wanted.Authorization.PolicyFile != "" || wanted.Authorization.WebhookConfigFile != "" {
		t.Skip("needs another authorizer than RBAC")
	}
	admission, accounts := wanted.Admission.GenericAdmission, wanted.Authentication.ServiceAccounts
	var flags []string
	for _, each := range []struct {
		name   string
		values []string
	}{
		{"admission-control-config-file", []string{admission.ConfigFile}},
		{"api-audiences", wanted.Authentication.APIAudiences},
		{"authorization-mode", wanted.Authorization.Modes},
		{"disable-admission-plugins", admission.DisablePlugins},
		{"enable-admission-plugins", admission.EnablePlugins},
		{"client-ca-file", []string{wanted.Authentication.ClientCert.ClientCA}},
		{"service-account-issuer", accounts.Issuers},
		{"service-account-key-file", accounts.KeyFiles},
		{"service-account-signing-key-file", []string{wanted.ServiceAccountSigningKeyFile}},
	} {
		if value := strings.Join(each.values, ","); value != "" {
			flags = append(flags, "--"+each.name+"="+value)
		}
	}
	if wanted.Authentication.Anonymous != nil && !wanted.Authentication.Anonymous.Allow {
		flags = append(flags, "--anonymous-auth=false")
	}
	if longest := accounts.MaxExpiration; longest != 0 {
		flags = append(flags, fmt.Sprintf("--service-account-max-token-expiration=%s", longest))
	}
	return flags
}
