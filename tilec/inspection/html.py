"""Rendering of a page as one HTML file: no external resources, escaped texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from tilec.inspection.page import Page, PageImage
from tilec.inspection.report import (
    hints_text,
    rule_text,
    signature,
    spills,
    table_text,
)
from tilec.package.doc import assumption_text
from tilec.package.pages import render_page
from tilec_runtime.model.driver import branch_of_cuda
from tilec_runtime.model.kernel import KernelInfo

Amount: TypeAlias = Callable[[int | None], str]


def render(page: Page, *, amount: Amount, title: str) -> bytes:
    """Return the HTML file of a page; equal pages give equal bytes.

    Args:
        page: contents of the page.
        amount: function that formats a number of bytes.
        title: title of the document.
    """
    return render_page(
        "inspect",
        title=title,
        amount=amount,
        report=page.report,
        page=page,
        kernels=_kernel_rows(page),
        rows=[_image_row(one) for one in page.images],
        data=page_json(page, amount),
    )


def page_json(page: Page, amount: Amount) -> dict[str, Any]:
    """Return the data that the page's script shows for an image, as JSON values."""
    return {
        "images": [_image_json(one, amount) for one in page.images],
        "kernels": {kernel.name: _kernel_json(kernel) for kernel in page.report.info.kernels},
        "files": [{"name": file.name, "code": file.code, "note": file.note} for file in page.files],
    }


def _kernel_rows(page: Page) -> list[dict[str, Any]]:
    warned = Counter(one.kernel.name for one in page.images if one.warnings)
    return [{"row": row, "warnings": warned[row.name]} for row in page.report.kernels]


def _image_row(one: PageImage) -> dict[str, Any]:
    used = one.image.resources
    return {
        "id": one.id,
        "kernel": one.kernel.name,
        "target": str(one.image.target),
        "registers": used.registers,
        "spills": spills(used),
        "shared": used.shared,
        "stack": used.stack,
        "occupancy": None if one.held is None else round(100 * one.held.fraction),
        "limiter": one.held.limiter if one.held else "",
        "size": one.image.size,
        "warnings": len(one.warnings),
    }


def _image_json(one: PageImage, amount: Amount) -> dict[str, Any]:
    return {
        "id": one.id,
        "kernel": one.kernel.name,
        "variant": one.variant.id,
        "target": str(one.image.target),
        "form": one.form,
        "facts": _facts(one, amount),
        "warnings": list(one.warnings),
        "code": one.code,
        "note": one.note,
    }


def _facts(one: PageImage, amount: Amount) -> list[list[str]]:
    image, used = one.image, one.image.resources
    branch = branch_of_cuda(image.cuda)
    sizes = (
        ("spills", spills(used)),
        ("shared memory", used.shared),
        ("stack", used.stack),
        ("machine code", used.code),
        ("image", image.size),
    )
    rows = [
        ("entry point", image.symbol),
        ("registers", "" if used.registers is None else str(used.registers)),
        *((label, "" if size is None else amount(size)) for label, size in sizes),
        ("occupancy", _occupancy(one)),
        ("assumes", assumption_text(one.variant.assume)),
        ("hints", hints_text(one.variant)),
        ("compiled for", " x ".join(map(str, image.block or image.required_block))),
        ("at most", f"{image.max_threads} threads a block" if image.max_threads else ""),
        ("cluster", " x ".join(map(str, image.cluster))),
        ("dynamic shared", amount(image.dynamic_shared) if image.dynamic_shared else ""),
        ("version", ".".join(map(str, image.ptx_isa)) if image.ptx_isa else ""),
        (
            "driver",
            f"{branch} or later" if branch else f"of CUDA {image.cuda[0]}.{image.cuda[1]} or later",
        ),
        ("runs on", "exactly this architecture" if image.exact else ""),
        ("reproducible", "" if image.reproducible else "no: another build may give other bytes"),
        ("sha256", image.digest),
    ]
    return [[label, text] for label, text in rows if text]


def _occupancy(one: PageImage) -> str:
    held = one.held
    if held is None:
        return ""
    blocks = f"{held.blocks_per_sm} block{'' if held.blocks_per_sm == 1 else 's'}"
    return f"{held.fraction:.0%}: a multiprocessor holds {blocks}; the limit is {held.limiter}"


def _kernel_json(kernel: KernelInfo) -> dict[str, Any]:
    launch = kernel.launch
    facts = [
        ("source", str(kernel.location)),
        ("language", kernel.language),
        ("grid", " x ".join(launch.grid)),
        ("block", "" if launch.block in (("1",), ()) else " x ".join(launch.block)),
        ("shared memory", "" if launch.shared == "0" else launch.shared),
        ("cooperative", "yes" if launch.cooperative else ""),
        ("requires", "; ".join(launch.requires)),
        ("tuned by", table_text(kernel.table) if kernel.table is not None else ""),
        ("rules", "; ".join(rule_text(rule) for rule in kernel.rules)),
    ]
    return {
        "signature": signature(kernel),
        "doc": kernel.doc.strip(),
        "file": kernel.location.file,
        "facts": [[label, text] for label, text in facts if text],
    }
