// types prints the Go types of Kubernetes kinds as aggserver/scheme/tables holds them: what their JSON and protobuf forms are.
//
// Argument: a group and version, such as meta/v1; the types of its kinds, and all that these reach in the same package, are printed.
// The form is described in aggserver/scheme/types.py. Without an argument: the groups and versions.
//
// With `-`: reads lines of JSON, {"type": "core/v1.Pod", "json": ...} or {"type": ..., "protobuf": base64}, and writes for each a line
// with the JSON and the protobuf that Go writes of what it has read, or with its error. What has protobuf is read back from it before
// it is written as JSON, as from kube-apiserver's store. With a patch, the JSON is instead what a strategic merge patch makes of it.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kjson "sigs.k8s.io/json"
)

var kinds = map[string][]any{
	"admission/v1":      {admissionv1.AdmissionReview{}},
	"admission/v1beta1": {admissionv1beta1.AdmissionReview{}},
	"admissionregistration/v1": {
		admissionregistrationv1.MutatingWebhookConfiguration{}, admissionregistrationv1.ValidatingWebhookConfiguration{},
		admissionregistrationv1.ValidatingAdmissionPolicy{}, admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
		admissionregistrationv1.MutatingAdmissionPolicy{}, admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	},
	"apidiscovery/v2":  {apidiscoveryv2.APIGroupDiscoveryList{}},
	"apiextensions/v1": {apiextensionsv1.CustomResourceDefinition{}, apiextensionsv1.ConversionReview{}},
	// Definitions of v1beta1 are not served; its reviews are still sent.
	"apiextensions/v1beta1": {apiextensionsv1beta1.ConversionReview{}},
	"apiregistration/v1":    {apiregistrationv1.APIService{}},
	"apps/v1": {
		appsv1.ControllerRevision{}, appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{},
	},
	"authentication/v1": {
		authenticationv1.SelfSubjectReview{}, authenticationv1.TokenRequest{}, authenticationv1.TokenReview{},
	},
	"authorization/v1": {
		authorizationv1.LocalSubjectAccessReview{}, authorizationv1.SelfSubjectAccessReview{},
		authorizationv1.SelfSubjectRulesReview{}, authorizationv1.SubjectAccessReview{},
	},
	"autoscaling/v1":  {autoscalingv1.HorizontalPodAutoscaler{}, autoscalingv1.Scale{}},
	"autoscaling/v2":  {autoscalingv2.HorizontalPodAutoscaler{}},
	"batch/v1":        {batchv1.CronJob{}, batchv1.Job{}},
	"certificates/v1": {certificatesv1.CertificateSigningRequest{}},
	"coordination/v1": {coordinationv1.Lease{}},
	"core/v1": {
		corev1.Binding{}, corev1.ComponentStatus{}, corev1.ConfigMap{}, corev1.Endpoints{}, corev1.Event{}, corev1.LimitRange{}, corev1.Namespace{},
		corev1.Node{}, corev1.PersistentVolume{}, corev1.PersistentVolumeClaim{}, corev1.Pod{}, corev1.PodTemplate{},
		corev1.ReplicationController{}, corev1.ResourceQuota{}, corev1.Secret{}, corev1.Service{}, corev1.ServiceAccount{},
		// Only kinds of other packages contain it.
		corev1.TopologySelectorTerm{},
	},
	"discovery/v1":   {discoveryv1.EndpointSlice{}},
	"events/v1":      {eventsv1.Event{}},
	"flowcontrol/v1": {flowcontrolv1.FlowSchema{}, flowcontrolv1.PriorityLevelConfiguration{}},
	"meta/v1": {
		metav1.TypeMeta{}, metav1.ObjectMeta{}, metav1.DeleteOptions{},
		metav1.FieldSelectorRequirement{}, metav1.LabelSelectorRequirement{},
		metav1.Status{}, metav1.PartialObjectMetadataList{}, metav1.GroupVersionKind{},
		metav1.APIVersions{}, metav1.APIGroupList{}, metav1.APIResourceList{},
		metav1.LabelSelector{}, metav1.Condition{}, metav1.GroupVersionResource{}, metav1.MicroTime{},
	},
	"api/resource": {resource.Quantity{}},
	"networking/v1": {
		networkingv1.IPAddress{}, networkingv1.Ingress{}, networkingv1.IngressClass{}, networkingv1.NetworkPolicy{},
		networkingv1.ServiceCIDR{},
	},
	"node/v1":     {nodev1.RuntimeClass{}},
	"pkg/runtime": {runtime.RawExtension{}},
	"pkg/types":   {types.UID("")},
	"policy/v1":   {policyv1.Eviction{}, policyv1.PodDisruptionBudget{}},
	"rbac/v1": {
		rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}, rbacv1.Role{}, rbacv1.RoleBinding{},
	},
	"resource/v1": {
		resourcev1.DeviceClass{}, resourcev1.ResourceClaim{}, resourcev1.ResourceClaimTemplate{}, resourcev1.ResourceSlice{},
	},
	"scheduling/v1": {schedulingv1.PriorityClass{}},
	"storage/v1": {
		storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.CSIStorageCapacity{}, storagev1.StorageClass{},
		storagev1.VolumeAttachment{}, storagev1.VolumeAttributesClass{},
	},
	"util/intstr": {intstr.IntOrString{}},
}

var marshaler = regexp.MustCompile(`^(Marshal|Unmarshal)JSON$`)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-" {
		reread()
		return
	}
	if len(os.Args) == 1 {
		for _, each := range slices.Sorted(maps.Keys(kinds)) {
			fmt.Println(each)
		}
		return
	}
	roots, known := kinds[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown:", os.Args[1])
		os.Exit(1)
	}
	p := printer{home: reflect.TypeOf(roots[0]).PkgPath(), seen: map[reflect.Type]bool{}}
	for _, root := range roots {
		p.reach(reflect.TypeOf(root))
	}
	for len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.declare(next)
	}
}

type exchange struct {
	Type     string          `json:"type,omitempty"`
	JSON     json.RawMessage `json:"json,omitempty"`
	Patch    json.RawMessage `json:"patch,omitempty"`
	Protobuf []byte          `json:"protobuf,omitempty"`
	Error    string          `json:"error,omitempty"`
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func reread() {
	lines, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.More() {
		var given exchange
		if err := lines.Decode(&given); err != nil {
			panic(err)
		}
		written, err := written(given)
		if err != nil {
			written.Error = err.Error()
		}
		if err := out.Encode(written); err != nil {
			panic(err)
		}
	}
}

func written(given exchange) (exchange, error) {
	dot := strings.LastIndex(given.Type, ".")
	var of reflect.Type
	for _, each := range kinds[given.Type[:dot]] {
		if reflect.TypeOf(each).Name() == given.Type[dot+1:] {
			of = reflect.TypeOf(each)
		}
	}
	if of == nil {
		return exchange{}, fmt.Errorf("unknown: %s", given.Type)
	}
	obj := reflect.New(of).Interface().(message)
	if given.Patch != nil {
		patched, err := strategicpatch.StrategicMergePatch(given.JSON, given.Patch, obj)
		return exchange{JSON: patched}, err
	}
	if given.JSON == nil {
		if err := obj.Unmarshal(given.Protobuf); err != nil {
			return exchange{}, err
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(given.JSON, obj); err != nil {
		return exchange{}, err
	}
	encoded, err := obj.Marshal()
	if err != nil {
		return exchange{}, err
	}
	stored := reflect.New(of).Interface().(message)
	if err := stored.Unmarshal(encoded); err != nil {
		return exchange{}, err
	}
	text, err := json.Marshal(stored)
	return exchange{JSON: text, Protobuf: encoded}, err
}

type printer struct {
	home    string
	seen    map[reflect.Type]bool
	waiting []reflect.Type
}

// reach has the named types of the home package declared, each once.
func (p *printer) reach(t reflect.Type) {
	if t.PkgPath() == p.home && !p.seen[t] {
		p.seen[t] = true
		p.waiting = append(p.waiting, t)
	}
}

func (p *printer) declare(t reflect.Type) {
	switch {
	case custom(t):
		fmt.Printf("%s custom\n", t.Name())
	case t.Kind() != reflect.Struct:
		head := t.Name() + " " + p.underlying(t)
		// Most named lists are written as any list is; one that writes itself is a message of its items.
		if _, writes := t.MethodByName("Marshal"); t.Kind() == reflect.Slice && writes {
			head += " message"
		}
		fmt.Println(head)
		return
	default:
		fmt.Printf("%s struct\n", t.Name())
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := 0; i < t.NumField(); i++ {
		p.member(t.Field(i))
	}
}

func custom(t reflect.Type) bool {
	for _, each := range []reflect.Type{t, reflect.PointerTo(t)} {
		for i := 0; i < each.NumMethod(); i++ {
			if marshaler.MatchString(each.Method(i).Name) {
				return true
			}
		}
	}
	return false
}

func (p *printer) member(f reflect.StructField) {
	if f.PkgPath != "" {
		return
	}
	name, flags := f.Name, []string(nil)
	tag := strings.Split(f.Tag.Get("json"), ",")
	if tag[0] != "" && tag[0] != "-" {
		name = tag[0]
	}
	for _, option := range tag[1:] {
		if option != "" {
			flags = append(flags, option)
		}
	}
	if tag[0] == "" && f.Anonymous && len(flags) == 0 {
		flags = append(flags, "inline")
	}
	number := "-"
	if parts := strings.Split(f.Tag.Get("protobuf"), ","); len(parts) > 1 {
		number = parts[1]
	} else if parts[0] == "-" {
		return // a time.Time in a Time
	}
	if f.Name != strings.ToUpper(name[:1])+name[1:] {
		flags = append(flags, f.Name)
	}
	if merge := f.Tag.Get("patchStrategy"); merge != "" {
		flags = append(flags, strings.TrimSuffix("patch="+merge+":"+f.Tag.Get("patchMergeKey"), ":"))
	}
	fmt.Println(strings.Join(append([]string{"  " + name, p.name(f.Type), number}, flags...), " "))
}

func (p *printer) underlying(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "[]" + p.name(t.Elem())
	case reflect.Map:
		return "map[string]" + p.name(t.Elem())
	default:
		return t.Kind().String()
	}
}

func (p *printer) name(t reflect.Type) string {
	p.reach(t)
	switch {
	case t.PkgPath() == p.home:
		return t.Name()
	case t.PkgPath() != "":
		return path.Base(path.Dir(t.PkgPath())) + "/" + t.String()
	case t.Kind() == reflect.Pointer:
		return "*" + p.name(t.Elem())
	default:
		return p.underlying(t)
	}
}
