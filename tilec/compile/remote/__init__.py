"""The remote cache: images on a server or in a bucket, by the keys of their jobs.

`store.py` says what a store is: bytes by kind (`ac`, `cas`) and name. `http.py`, `folder.py` and
`cloud.py` are stores; `access.open_store` opens the one that a URL names. `images.py` puts an image
into any store and gets it back, verified:

    digest = put_image(store, key, row, data, seconds=1.5)  # a worker, wherever it runs
    entry = get_image(store, key, row=digest)               # the build: those bytes, or an error

`row` is the image's index row (`tilec.compile.cache.index_row`), and its SHA-256 is all that has to
travel: it covers the image's digest too. Stores are safe to use from several threads, and are not
pickled: a process opens its own from the URL, with credentials of its own.

`session.py` is a build's use of a store: parallel look-ups, uploads beside the compilers, and the
end of both at the first fault. `usage.py` counts what it gave.
"""
