"""HTTP/2: from the frames of one connection to ASGI calls and back.

connection     events from the client: new streams, bodies, resets; and the end of the connection
stream         one request: its `send` of ASGI, run in the request's own task
sender         sends response heads, and bodies as far as flow control allows
request_head   a request's header block as an ASGI scope
protocol       jh2's connection (frames, compression, stream states), with limits on what a client can make it do
allowance      how many frames without effect a client may send
header_block   the checks of RFC 7541 that jh2's decoder leaves out

It uses jh2 instead of hypercorn's protocol over h2, because jh2 was faster (TLS, responses of 3.7 KB): 60 instead of 138 us for
the frames of a get, and some 20 instead of 70 us for the work around them.
"""
