"""The remote cache: images on a server or in a bucket, by the keys of their jobs.

`store.py` defines a store: bytes by kind (`ac`, `cas`) and name. `http.py`, `folder.py` and
`cloud.py` implement stores; `access.open_store` opens the store of a URL. `images.py` writes an
image to any store and reads it, verified. The image lies under its digest in `cas`. Its entry, by
the key of its job in `ac`, holds its index row (`tilec.compile.cache.index_row`), which has the
image's digest: a pin of the row also covers the image. Stores are thread-safe and not pickled: each
process opens its own from the URL, with its own credentials.

`session.py` is a build's use of a store: parallel look-ups, uploads during compilation, and the
end of both at the first fault. `usage.py` counts hits and transfers.
"""
