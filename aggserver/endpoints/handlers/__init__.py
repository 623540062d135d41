"""One module a verb: negotiate, decode, admit, call the resource, encode. They hold no rule of any resource."""
