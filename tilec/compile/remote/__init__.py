"""The remote cache: images on a server or in a bucket, by the keys of their jobs.

`store.py` defines a store: bytes by kind (`ac`, `cas`) and name. `http.py`, `folder.py` and
`cloud.py` implement stores; `access.open_store` opens the store of a URL. `images.py` writes an
image to any store and reads it, verified:

    digest = put_image(store, key, row, data, seconds=1.5)  # a worker on any machine
    entry = get_image(store, key, row=digest)               # the build: the same bytes, or an error

`row` is the image's index row (`tilec.compile.cache.index_row`). Only its SHA-256 must be
transferred, since it covers the image's digest too. Stores are thread-safe and not pickled: each
process opens its own from the URL, with its own credentials.

`session.py` is a build's use of a store: parallel look-ups, uploads during compilation, and the
end of both at the first fault. `usage.py` counts hits and transfers.
"""
