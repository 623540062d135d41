"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules in CEL about writes, compiled once and evaluated for each."""
