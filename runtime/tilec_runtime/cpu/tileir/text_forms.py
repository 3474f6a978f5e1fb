"""The textual form of each operation."""

from __future__ import annotations

# `{lhs}` is an operand or an attribute; `{lhs:t}` its types, `{lhs:i}` one type if they are equal;
# `{>:t}` the types of the results, `{>0:t}` the type of the first; `{@0}` an argument of the nested
# block. `[[...]]` is omitted if its field is absent or has the usual value.
_PLAIN = "{source} : {>:t}"
_BOTH = "{lhs}, {rhs} : {>:t}"
_ROUNDED = "{lhs}, {rhs}[[ {rounding}]][[ {flush_to_zero}]] : {>:t}"
_PROMISED = "{lhs}, {rhs}[[ {overflow}]] : {>:t}"
_SIGNED = "{lhs}, {rhs} {signedness} : {>:t}"
_LIMIT = "{lhs}, {rhs}[[ {flush_to_zero}]][[ {propagate_nan}]] : {>:t}"
_CONVERT = "{source} : {source:t} -> {>:t}"
_MADE = "{tensor} : {>:t}"
_WAITS = "[[ token = {token}]] -> {>:t}"
_SHAPE = "{source} : {source:t} -> {>0:t}"
_XYZ = ": {>0:t}"
_MASKED = "[[, {mask}]][[, {padding}]][[ token={token}]][[ optimization_hints = {hints}]]"
_MASK_TYPE = "[[, {mask:t}]] -> {>:t}"
_VIEWED = "[[ token = {token}]][[ optimization_hints = {hints}]][[ inbounds = {inbounds}]]"
_ENDING = "{values}[[ : {values:t}]]"

FORMS: dict[str, str] = {
    **dict.fromkeys(
        (
            "absf",
            "absi",
            "ceil",
            "floor",
            "cos",
            "cosh",
            "sin",
            "sinh",
            "tan",
            "log",
            "log2",
            "negf",
        ),
        _PLAIN,
    ),
    **dict.fromkeys(("andi", "ori", "xori", "mulhii", "remf"), _BOTH),
    **dict.fromkeys(("addf", "subf", "mulf", "divf"), _ROUNDED),
    **dict.fromkeys(("addi", "subi", "muli", "shli"), _PROMISED),
    **dict.fromkeys(("remi", "maxi", "mini", "shri"), _SIGNED),
    **dict.fromkeys(("maxf", "minf"), _LIMIT),
    **dict.fromkeys(("exp", "tanh"), "{source}[[ {rounding}]] : {>:t}"),
    **dict.fromkeys(("exp2", "rsqrt"), "{source}[[ {flush_to_zero}]] : {>:t}"),
    **dict.fromkeys(
        (
            "bitcast",
            "ptr_to_int",
            "int_to_ptr",
            "ptr_to_ptr",
            "pack",
            "unpack",
            "broadcast",
            "reshape",
        ),
        _CONVERT,
    ),
    **dict.fromkeys(
        ("make_partition_view", "make_strided_view", "make_gather_scatter_view"), _MADE
    ),
    **dict.fromkeys(("get_index_space_shape", "get_tensor_shape"), _SHAPE),
    **dict.fromkeys(("get_tile_block_id", "get_num_tile_blocks"), _XYZ),
    **dict.fromkeys(("gdc_wait_tko", "gdc_launch_dependents_tko"), _WAITS),
    **dict.fromkeys(("return", "yield", "break", "continue"), _ENDING),
    "negi": "{source}[[ {overflow}]] : {>:t}",
    "sqrt": "{source}[[ {rounding}]][[ {flush_to_zero}]] : {>:t}",
    "fma": "{lhs}, {rhs}, {acc}[[ {rounding}]][[ {flush_to_zero}]] : {>:t}",
    "fpowf": "{source}, {exponent} : {>:t}",
    "fpowi": "{source}, {exponent} : {source:t}, {exponent:t}",
    "atan2": "{x}, {y} : {>:t}",
    "divi": "{lhs}, {rhs} {signedness}[[ {rounding}]] : {>:t}",
    "cmpf": "{predicate} {ordering} {lhs}, {rhs} : {lhs:t} -> {>:t}",
    "cmpi": "{predicate} {lhs}, {rhs}, {signedness} : {lhs:t} -> {>:t}",
    "select": "{condition}, {if_true}, {if_false} : {condition:t}, {>:t}",
    "exti": "{source} {signedness} : {source:t} -> {>:t}",
    "trunci": "{source}[[ {overflow}]] : {source:t} -> {>:t}",
    "ftof": "{source}[[ {rounding}]] : {source:t} -> {>:t}",
    "ftoi": "{source} {signedness}[[ {rounding}]][[ {saturating}]] : {source:t} -> {>:t}",
    "itof": "{source} {signedness}[[ {rounding}]] : {source:t} -> {>:t}",
    "offset": "{pointer}, {offset} : {pointer:t}, {offset:t} -> {>:t}",
    "constant": "{value} : {>:t}",
    "iota": ": {>:t}",
    "permute": "{source} {permutation} : {source:t} -> {>:t}",
    "cat": "{lhs}, {rhs} dim = {dim} : {lhs:t}, {rhs:t} -> {>:t}",
    "extract": "{source}[{indices}] : {source:t} -> {>:t}",
    "insert": "{source}, {destination}[{indices}] : {source:t}, {destination:t}",
    "mmaf": "{lhs}, {rhs}, {acc}[[ {fast_acc}]] : {lhs:t}, {rhs:t}, {acc:t}",
    "mmai": "{lhs}, {rhs}, {acc} {signedness_lhs} {signedness_rhs} : {lhs:t}, {rhs:t}, {acc:t}",
    "mmaf_scaled": "{lhs}, {rhs}, {acc}, {lhs_scale}, {rhs_scale} : {lhs:t}, {rhs:t}, {acc:t}, {lhs_scale:t}, {rhs_scale:t}",
    "reduce": "{operands} dim={dim} identities={identities} : {operands:t} -> {>:t}",
    "scan": "{operands} dim={dim} reverse={reverse} identities={identities} : {operands:t} -> {>:t}",
    "load_ptr_tko": "{order}[[ {scope}]] {source}"
    + _MASKED
    + " : {source:t}[[, {mask:t}]][[, {padding:t}]] -> {>:t}",
    "store_ptr_tko": "{order}[[ {scope}]] {destination}, {value}"
    + _MASKED
    + " : {destination:t}, {value:t}"
    + _MASK_TYPE,
    "atomic_rmw_tko": "{order} {scope} {pointers}, {mode}, {value}"
    + _MASKED
    + " : {pointers:t}, {value:t}"
    + _MASK_TYPE,
    "atomic_cas_tko": "{order} {scope} {pointers}, {compare}, {value}"
    + _MASKED
    + " : {pointers:t}, {value:t}"
    + _MASK_TYPE,
    "load_view_tko": "{order}[[ {scope}]] {view}[{index}]"
    + _VIEWED
    + " : {view:t}, {index:i} -> {>:t}",
    "store_view_tko": "{order}[[ {scope}]] {value}, {view}[{index}]"
    + _VIEWED
    + " : {value:t}, {view:t}, {index:i} -> {>:t}",
    "atomic_red_view_tko": (
        "{order} {scope} {view}[{index}], {mode}, {value}[[ token = {token}]] : {value:t}, {view:t}, {index:i} -> {>:t}"
    ),
    "make_tensor_view": "{base}, shape = {shape:x}, strides = {strides:x} : [[{dynamic:i} -> ]]{>:t}",
    "get_global": "@{name} : {>:t}",
    "alloca": "num_elem = {count}, alignment = {alignment}[[ {global}]] : {>:t}",
    "make_token": ": {>:t}",
    "join_tokens": "{tokens} : {>:t}",
    "memory_fence_alias_tko": "{token}",
    "print_tko": "{text}[[, {args}]][[ token={token}]][[ : {args:t}]][[ -> {>:t}]]",
    "assert": "{condition}, {message} : {condition:t}",
    "assume": "{predicate}, {value} : {>:t}",
    "if": "{condition}[[ -> ({>:t})]]",
    "for": "[[{unsigned_cmp} ]]{@0} in ({lower} to {upper}, step {step}) : {lower:t}[[ iter_values({@1}) -> ({>:t})]]",
    "loop": "[[iter_values({@0}) : {init:t}]][[ -> {>:t}]]",
}
