#!/bin/sh
# A CA and a serving certificate for aggserver, for those who bring their own. See certs/README.md.
#
#   certs/make-certs.sh [-o DIR] [-s SERVICE] [-n NAMESPACE] [-d DAYS] [NAME or IP address...]
#
# Into DIR (default: the folder of this script) go ca.crt, ca.key, tls.crt and tls.key, readable by you alone. What is there and
# still right is kept, so it can be run at any time: the certificate is made anew when less than a third of DAYS is left, when the
# names differ, or when it fits its key or its CA no longer. NAMEs and addresses are added to those of the Service.
set -eu

# What is wrong, in one line, and the exit status.
fail() {
  echo "make-certs.sh: $1" >&2
  exit "${2:-1}"
}

folder=$(dirname "$0")
service=aggserver
namespace=aggserver-system
days=365
ca_days=3650

while getopts o:s:n:d: option; do
  case $option in
    o) folder=$OPTARG ;;
    s) service=$OPTARG ;;
    n) namespace=$OPTARG ;;
    d) days=$OPTARG ;;
    *) fail "usage: make-certs.sh [-o DIR] [-s SERVICE] [-n NAMESPACE] [-d DAYS] [NAME or IP address...]" 2 ;;
  esac
done
shift $((OPTIND - 1))
case $days in '' | *[!0-9]* | 0*) fail "-d: must be a whole number of days, 1 or more" 2 ;; esac
[ "$days" -le "$ca_days" ] || fail "-d: at most $ca_days days, which a CA lasts" 2
for label in "$service" "$namespace"; do
  # Both become parts of a DNS name, and of a configuration file.
  case $label in '' | *[!a-z0-9-]*) fail "'$label' is no name of a Service or namespace" 2 ;; esac
done
command -v openssl >/dev/null || fail "needs openssl on PATH"

# As openssl prints them, so that what a certificate has can be compared with what is wanted.
names="DNS:$service.$namespace.svc, DNS:$service.$namespace.svc.cluster.local, DNS:$service.$namespace, DNS:$service"
for extra in "$@"; do
  case $extra in
    '' | *[!A-Za-z0-9.:*-]*) fail "'$extra' is neither a DNS name nor an IP address" 2 ;;
    # IPv6 is printed in another form than it is written, so a certificate with such an address is made anew each time.
    *:*) names="$names, IP Address:$extra" ;;
    *[!0-9.]*) names="$names, DNS:$extra" ;;
    *) names="$names, IP Address:$extra" ;;
  esac
done

umask 077
mkdir -p "$folder"
# In the same folder, so that the finished files are moved into place whole.
work=$(mktemp -d "$folder/.make-certs.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

cat >"$work/openssl.cnf" <<END
[req]
distinguished_name = subject
[subject]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[serving]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = $(echo "$names" | sed 's/IP Address:/IP:/g')
END

# quietly COMMAND...: what it prints is only of interest when it fails.
quietly() {
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "failed: $*"; }
}

new_key() {
  # PKCS #8 and P-256, which every TLS client of Kubernetes takes.
  quietly openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out "$1"
}

# The subject is for people: TLS clients look at the alternative names. X.520 allows a CN 64 characters.
subject() {
  printf '/CN=%.64s' "$1"
}

# fits CERTIFICATE KEY: whether both are there and belong together.
fits() {
  [ -f "$1" ] && [ -f "$2" ] || return 1
  of_certificate=$(openssl x509 -in "$1" -noout -pubkey 2>/dev/null) || return 1
  of_key=$(openssl pkey -in "$2" -pubout 2>/dev/null) || return 1
  [ "$of_certificate" = "$of_key" ]
}

# lasts CERTIFICATE DAYS: whether it is valid for that long.
lasts() {
  openssl x509 -in "$1" -noout -checkend $(($2 * 86400)) >/dev/null
}

make_ca() {
  new_key "$work/ca.key"
  quietly openssl req -new -x509 -sha256 -days "$ca_days" -subj "$(subject "CA of $service.$namespace")" \
    -config "$work/openssl.cnf" -extensions ca -key "$work/ca.key" -out "$work/ca.crt"
  mv "$work/ca.key" "$folder/ca.key"
  mv "$work/ca.crt" "$folder/ca.crt"
  echo "made $folder/ca.crt, valid for $ca_days days"
}

# The alternative names of the certificate, as a list in one line.
names_of() {
  openssl x509 -in "$1" -noout -text | sed -n '/Subject Alternative Name/{n;s/^ *//;p;}'
}

still_right() {
  fits "$folder/tls.crt" "$folder/tls.key" && lasts "$folder/tls.crt" $((days / 3)) &&
    openssl verify -CAfile "$folder/ca.crt" "$folder/tls.crt" >/dev/null 2>&1 && [ "$(names_of "$folder/tls.crt")" = "$names" ]
}

make_serving() {
  new_key "$work/tls.key"
  quietly openssl req -new -sha256 -subj "$(subject "$service.$namespace.svc")" -config "$work/openssl.cnf" \
    -key "$work/tls.key" -out "$work/tls.csr"
  # A serial number by chance: none to keep count of, and none that two certificates of one CA could share.
  serial=$(openssl rand -hex 16)
  quietly openssl x509 -req -sha256 -days "$days" -in "$work/tls.csr" -CA "$folder/ca.crt" \
    -CAkey "$folder/ca.key" -set_serial "0x$serial" -extfile "$work/openssl.cnf" -extensions serving -out "$work/tls.crt"
  mv "$work/tls.key" "$folder/tls.key"
  mv "$work/tls.crt" "$folder/tls.crt"
  echo "made $folder/tls.crt, valid for $days days, for $names"
}

if [ ! -e "$folder/ca.crt" ] && [ ! -e "$folder/ca.key" ]; then
  make_ca
else
  # A CA is not replaced unasked: somebody may trust it already, or have put it there.
  fits "$folder/ca.crt" "$folder/ca.key" ||
    fail "$folder/ca.crt and $folder/ca.key don't belong together; move both away to have new ones"
  lasts "$folder/ca.crt" "$days" ||
    fail "$folder/ca.crt ends within $days days; move it and $folder/ca.key away to have new ones"
  echo "kept $folder/ca.crt"
fi
if still_right; then
  echo "kept $folder/tls.crt"
else
  make_serving
fi
