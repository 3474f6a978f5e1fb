"""The codec: every value of the model that the cache holds comes back equal, and nothing else comes
back at all.
"""

from __future__ import annotations

from typing import Any

import pytest

from tilec.model.codec import decode, encode
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

PLACE = Location(file="k.cu", line=1, column=2)
VALUES = [
    ImageInfo(target=Target.parse("tileir"), digest="d", size=1, symbol="s"),
    ImageInfo(
        target=Target.parse("sm_100f"),
        digest="d",
        size=1,
        symbol="s",
        exact=True,
        ptx_isa=(8, 8),
        cuda=(12, 9),
        resources=Resources(registers=1, code=2),
        max_threads=3,
        required_block=(1, 2, 3),
        cluster=(2,),
    ),
    AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
    Diagnostic(message="m", location=PLACE, excerpt="x", hint="h"),
    Diagnostic(message="m"),
    KernelDecl(
        name="k",
        location=PLACE,
        params=(ParamDecl(name="x", kind="scalar", out=True, default=1.0, location=PLACE),),
        template=("T",),
    ),
    Param(name="x", kind=ParamKind.TENSOR, stride=(None, 1), default=True),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_any_other_shape_is_refused(value: Any) -> None:
    plain = encode(value)
    wrong = [
        None,
        3,
        "x",
        [],
        {},
        [plain],
        {**plain, "more": 1},
        {k: v for k, v in plain.items() if k != next(iter(plain))},
    ]
    wrong += [{**plain, key: object()} for key in plain]
    for shape in wrong:
        with pytest.raises(ValueError):
            decode(type(value), shape)
