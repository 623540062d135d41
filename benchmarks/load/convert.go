package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// What v1 calls spec.cronSpec is spec.schedule in the other version.
const (
	storedField = "cronSpec"
	otherField  = "schedule"
)

// review is a ConversionReview, with what a conversion reads and writes.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID               string           `json:"uid"`
		DesiredAPIVersion string           `json:"desiredAPIVersion"`
		Objects           []map[string]any `json:"objects"`
	} `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
}

type response struct {
	UID              string           `json:"uid"`
	ConvertedObjects []map[string]any `json:"convertedObjects"`
	Result           any              `json:"result"`
}

// convertAll decodes and encodes objects as webhooks in Go do that have no types for them, and does nothing else that takes time.
func convertAll(w http.ResponseWriter, r *http.Request) {
	var asked review
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, fmt.Sprintf("this is no ConversionReview: %v", err), http.StatusBadRequest)
		return
	}
	desired := asked.Request.DesiredAPIVersion
	from, to := storedField, otherField
	if strings.HasSuffix(desired, "/"+version) {
		from, to = to, from
	}
	for _, object := range asked.Request.Objects {
		object["apiVersion"] = desired
		spec, _ := object["spec"].(map[string]any)
		if value, found := spec[from]; found {
			spec[to] = value
			delete(spec, from)
		}
	}
	asked.Response = &response{asked.Request.UID, asked.Request.Objects, map[string]string{"status": "Success"}}
	asked.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(asked)
}
