// Package e2e is kubernetes' own end-to-end suite, with a limit of time for each spec.
//
// Upstream's program gives Pods five minutes to start, and here none of them ever does. A spec that has not ended after
// E2E_SPEC_SECONDS fails at its next look at its context. Specs of cloud providers, Windows and storage drivers are left out:
// all of them need containers.
package e2e

import (
	"context"
	"flag"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	conformance "k8s.io/kubernetes/test/conformance/testdata"
	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	fixtures "k8s.io/kubernetes/test/fixtures"

	_ "k8s.io/kubernetes/test/e2e/feature"

	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/architecture"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/autoscaling"
	_ "k8s.io/kubernetes/test/e2e/common"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/lifecycle"
	_ "k8s.io/kubernetes/test/e2e/lifecycle/bootstrap"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"

	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/format"
)

// TestMain registers the flags of upstream's program, and finds the files that specs read in what is compiled in.
func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformance.GetConformanceTestdataFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

// TestE2E runs the specs that flags choose.
func TestE2E(t *testing.T) {
	if seconds, err := strconv.Atoi(os.Getenv("E2E_SPEC_SECONDS")); err == nil {
		defer limit(time.Duration(seconds) * time.Second)()
	}
	e2e.RunE2ETests(t)
}

// limit gives each spec this time, unless it has a limit of its own or takes no context, by which it could be ended.
func limit(most time.Duration) func() {
	ofContext := reflect.TypeFor[context.Context]()
	return ginkgo.AddTreeConstructionNodeArgsTransformer(
		func(kind types.NodeType, _ ginkgo.Offset, text string, args []any) (string, []any, []error) {
			if kind != types.NodeTypeIt {
				return text, args, nil
			}
			takesContext := false
			for _, arg := range args {
				switch arg.(type) {
				case ginkgo.SpecTimeout, ginkgo.NodeTimeout:
					return text, args, nil
				}
				if of := reflect.TypeOf(arg); of != nil && of.Kind() == reflect.Func && of.NumIn() == 1 && of.In(0).Implements(ofContext) {
					takesContext = true
				}
			}
			if takesContext {
				args = append(args, ginkgo.SpecTimeout(most))
			}
			return text, args, nil
		})
}
