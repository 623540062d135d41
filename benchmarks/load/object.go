package main

import (
	"bytes"
	"fmt"
)

// template is a CronTab cut open at its name and its replicas, so that a body is three copies.
type template struct {
	head, middle, tail []byte
	inGroup            int // objects that share a value of the label `group`; 0: there is none
}

// newTemplate makes an object of about size bytes. The bulk is a list of small maps: text alone would spare the servers the decoding,
// pruning and validating that custom resources cost.
func newTemplate(size int) *template {
	if plural == "flunders" {
		return flunderTemplate(size)
	}
	var head, tail bytes.Buffer
	head.WriteString(`{"apiVersion":"` + group + `/` + version + `","kind":"CronTab","metadata":{"annotations":{` +
		`"example.com/owner":"team-scheduling@example.com","example.com/runbook":"https://runbooks.example.com/crontab"},` +
		`"labels":{"app.kubernetes.io/name":"report","app.kubernetes.io/part-of":"billing","tier":"batch"},"name":"`)
	tail.WriteString(`,"args":["--config=/etc/report/config.yaml","--output=/var/lib/report","--verbose"],"env":[`)
	const closing = `],"cronSpec":"*/5 * * * *","image":"registry.example.com/billing/report:2026.4.1","suspend":false,` +
		`"timeZone":"Etc/UTC"}}`
	const middle = `"},"spec":{"replicas":`
	for i := 0; i == 0 || head.Len()+len(middle)+tail.Len()+len(closing)+70 < size; i++ {
		if i > 0 {
			tail.WriteByte(',')
		}
		fmt.Fprintf(&tail, `{"name":"REPORT_SETTING_%03d","value":"value-%03d-of-the-report"}`, i, i*7%1000)
	}
	tail.WriteString(closing)
	return &template{head: head.Bytes(), middle: []byte(middle), tail: tail.Bytes()}
}

// flunderTemplate makes a Flunder of sample-apiserver: its bulk is in annotations, since its spec has two short texts.
func flunderTemplate(size int) *template {
	var head bytes.Buffer
	head.WriteString(`{"apiVersion":"` + group + `/` + version + `","kind":"Flunder","metadata":{"annotations":{`)
	const middle = `"},"spec":{"reference":"flunder-`
	for i := 0; i == 0 || head.Len()+len(middle)+120 < size; i++ {
		if i > 0 {
			head.WriteByte(',')
		}
		fmt.Fprintf(&head, `"example.com/setting-%03d":"value-%03d-of-the-flunder"`, i, i*7%1000)
	}
	head.WriteString(`},"labels":{"app.kubernetes.io/name":"report","tier":"batch"},"name":"`)
	return &template{head: head.Bytes(), middle: []byte(middle), tail: []byte(`"}}`)}
}

// object appends an object with this name to buffer.
func (t *template) object(buffer []byte, name string, replicas int) []byte {
	buffer = append(buffer, t.head...)
	buffer = append(buffer, name...)
	buffer = append(buffer, t.middle...)
	buffer = fmt.Appendf(buffer, "%d", replicas)
	return append(buffer, t.tail...)
}

// inItsGroup appends the object with this index.
func (t *template) inItsGroup(buffer []byte, name string, index int) []byte {
	if t.inGroup == 0 {
		return t.object(buffer, name, 1)
	}
	const labels = `"labels":{`
	at := bytes.Index(t.head, []byte(labels)) + len(labels)
	grouped := *t
	grouped.head = fmt.Appendf(nil, `%s"group":"group-%06d",%s`, t.head[:at], index/t.inGroup, t.head[at:])
	return grouped.object(buffer, name, 1)
}

func (s *settings) name(index int) string { return fmt.Sprintf("%s-%06d", s.prefix, index) }
