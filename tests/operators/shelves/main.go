// shelves is an operator as people write them with controller-runtime: a cached client, leader election, an owned object, a
// finalizer and a status. For each Shelf it keeps a ConfigMap of the same name with the Shelf's mark, and says in the status which
// mark it has seen; the finalizer removes the ConfigMap.
//
// Argument: a kubeconfig, '' in a pod. Each line on standard input asks for one line of JSON on standard output: the
// resourceVersions of all Shelves and ConfigMaps in the cache, and in the cluster. At the end of standard input it ends. The log
// goes to standard error, as JSON. Called by tests/integration/test_adoption_operator.py and in_the_cluster/operators.py; compiled
// in the module of controller-runtime.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	namespace = "shelves"
	finalizer = "shelves.example.com/config-map"
)

var groupVersion = schema.GroupVersion{Group: "shelves.example.com", Version: "v1"}

type shelfSpec struct {
	Mark int `json:"mark"`
}

type shelfStatus struct {
	Mark               int   `json:"mark"`
	ObservedGeneration int64 `json:"observedGeneration"`
}

// Shelf is the custom resource.
type Shelf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              shelfSpec   `json:"spec"`
	Status            shelfStatus `json:"status,omitempty"`
}

// DeepCopyObject is what generators make for such types.
func (s *Shelf) DeepCopyObject() runtime.Object {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// ShelfList is a list of them.
type ShelfList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shelf `json:"items"`
}

// DeepCopyObject is what generators make for such types.
func (l *ShelfList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Shelf, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Shelf)
	}
	return &copied
}

type reconciler struct {
	client.Client
}

// Reconcile leaves alone what is gone, also if it goes meanwhile.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, client.IgnoreNotFound(r.reconcile(ctx, request))
}

func (r *reconciler) reconcile(ctx context.Context, request ctrl.Request) error {
	var shelf Shelf
	if err := r.Get(ctx, request.NamespacedName, &shelf); err != nil {
		return err
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: shelf.Namespace, Name: shelf.Name}}
	if !shelf.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&shelf, finalizer) {
			return nil
		}
		if err := client.IgnoreNotFound(r.Delete(ctx, owned)); err != nil {
			return err
		}
		controllerutil.RemoveFinalizer(&shelf, finalizer)
		return r.Update(ctx, &shelf)
	}
	if controllerutil.AddFinalizer(&shelf, finalizer) {
		if err := r.Update(ctx, &shelf); err != nil {
			return err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Data = map[string]string{"mark": strconv.Itoa(shelf.Spec.Mark)}
		return controllerutil.SetControllerReference(&shelf, owned, r.Scheme())
	})
	if err != nil {
		return err
	}
	seen := shelfStatus{Mark: shelf.Spec.Mark, ObservedGeneration: shelf.Generation}
	if shelf.Status == seen {
		return nil
	}
	shelf.Status = seen
	return r.Status().Update(ctx, &shelf)
}

// held is what a reader has, by kind and name.
func held(ctx context.Context, reader client.Reader) (map[string]map[string]string, error) {
	found := map[string]map[string]string{}
	for kind, list := range map[string]client.ObjectList{"Shelf": &ShelfList{}, "ConfigMap": &corev1.ConfigMapList{}} {
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		found[kind] = map[string]string{}
		err := meta.EachListItem(list, func(object runtime.Object) error {
			each := object.(client.Object)
			found[kind][each.GetName()] = each.GetResourceVersion()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func answer(ctx context.Context, manager ctrl.Manager) error {
	output := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		cached, err := held(ctx, manager.GetClient())
		if err != nil {
			return err
		}
		live, err := held(ctx, manager.GetAPIReader())
		if err != nil {
			return err
		}
		if err := output.Encode(map[string]any{"cached": cached, "live": live}); err != nil {
			return err
		}
	}
	return nil
}

func run(kubeconfig string) error {
	logger := zap.New(zap.WriteTo(os.Stderr))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(groupVersion, &Shelf{}, &ShelfList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "shelves",
		LeaderElectionNamespace: namespace,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&Shelf{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		failed <- answer(ctx, manager)
	}()
	if err := manager.Start(ctx); err != nil {
		return err
	}
	return <-failed
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
