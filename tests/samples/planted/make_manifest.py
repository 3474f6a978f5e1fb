"""Writes tilec.toml beside this file: one kernel with one case for every planted bug and every near miss."""

from __future__ import annotations

from pathlib import Path

# kernel: (file, grid, parameters). A parameter is (name, dtype, shape or value, how its case fills it); names of outputs end in "!".
F32, I32 = "f32", "i32"
_Y, _X = ("y!", F32, [64], "empty"), ("x", F32, [64], "normal")
_XY = [_Y, _X]
_COUNT = [("count!", I32, [1], "zeros"), ("x", F32, [64], "normal")]
_LAST = [("total!", F32, [1], "empty"), ("partial!", F32, [4], "empty"), ("count!", I32, [1], "zeros"), ("x", F32, [64], "normal")]
_SPLIT = [("c!", F32, [16, 16], "zeros"), ("a", F32, [16, 64], "normal"), ("b", F32, [64, 16], "normal")]
_FLAG = [("y!", F32, [64], "empty"), ("flag!", I32, [1], "zeros"), ("x", F32, [64], "normal")]
_PARTS = [("c!", F32, [64, 16], "empty"), ("partial!", F32, [64, 16], "empty"), ("flag!", I32, [4], "zeros")]
_PARTS += [("a", F32, [64, 32], "normal"), ("b", F32, [32, 16], "normal")]
_LOCK = [("total!", F32, [1], "zeros"), ("lock!", I32, [1], "zeros"), ("x", F32, [256], "normal")]
_RAGGED = [("y!", F32, [4], "empty"), ("x", F32, [4, 200], "normal")]
_HEADS = [("o!", F32, [16, 16], "empty"), ("q", F32, [16, 16], "normal"), ("k", F32, [20, 16], "normal"), ("v", F32, [20, 16], "normal")]
_FLAGS = [("y!", I32, [1], "zeros"), ("x", "bool", [60], "ones")]
_TAIL = [("y!", F32, [60], "empty"), ("x", F32, [60], "normal")]
KERNELS = {
    "all_write_first_tile": ("races", [4], _XY),
    "each_writes_its_tile": ("races", [4], _XY),
    "reads_neighbour_in_place": ("races", [4], [("y!", F32, [64], "normal")]),
    "reads_neighbour_of_input": ("races", [4], _XY),
    "counts_without_atomics": ("races", [4], _COUNT),
    "counts_with_atomics": ("races", [4], _COUNT),
    "resets_what_others_count": ("races", [4], _COUNT),
    "last_block_sums_relaxed": ("races", [4], _LAST),
    "last_block_sums": ("races", [4], _LAST),
    "ignores_second_axis": ("races", [4, 3], [("y!", F32, [64], "empty"), ("x", F32, [3, 64], "normal")]),
    "uses_second_axis": ("races", [4, 3], [("y!", F32, [3, 64], "empty"), ("x", F32, [3, 64], "normal")]),
    "split_k_adds": ("races", [4], _SPLIT),
    "scatters_to_one_place": ("races:scatters_by_index", [4], [*_XY, ("where", I32, [64], "zeros")]),
    "scatters_to_all_places": ("races:scatters_by_index", [4], [*_XY, ("where", I32, [64], "arange")]),
    "last_exchange_wins": ("races", [4], [("y!", I32, [1], "zeros"), ("x", F32, [64], "normal")]),
    "largest_wins": ("races", [4], [("y!", I32, [1], "zeros"), ("x", F32, [64], "normal")]),
    "waits_for_a_flag": ("races", [4], _FLAG),
    "waits_for_a_relaxed_flag": ("races", [4], _FLAG),
    "gathers_beyond_the_end": ("accesses", [4], _XY),
    "gathers_with_bounds": ("accesses", [4], _XY),
    "gathers_before_the_start": ("accesses", [4], _XY),
    "gathers_masked": ("accesses", [4], _XY),
    "scatters_beyond_the_end": ("accesses", [4], _XY),
    "loads_unchecked_tail": ("accesses", [4], _TAIL),
    "loads_unchecked_whole": ("accesses:loads_unchecked_tail", [4], _XY),
    "loads_checked_tail": ("accesses", [4], _TAIL),
    "loads_tile_outside": ("accesses", [4], [_Y, ("x", F32, [48], "normal")]),
    "stores_tile_outside": ("accesses", [4], [("y!", F32, [48], "empty"), _X]),
    "rounds_the_grid_up": ("accesses", [4], [("y!", F32, [49], "empty"), ("x", F32, [49], "normal")]),
    "stores_unchecked_tail": ("accesses", [4], _TAIL),
    "leaves_the_row": ("accesses", [4], [("y!", F32, [4, 12], "empty"), ("x", F32, [4, 12], "normal")]),
    "adds_to_unwritten": ("accesses", [4], _XY),
    "adds_to_what_it_wrote": ("accesses", [4], _XY),
    "adds_to_given": ("accesses:adds_to_unwritten", [4], [("y!", F32, [64], "normal"), ("x", F32, [64], "normal")]),
    "counts_into_unwritten": ("accesses", [4], [("count!", I32, [1], "empty"), ("x", F32, [64], "normal")]),
    "reads_more_than_it_wrote": ("accesses", [4], _XY),
    "promises_divisible_by_8_of_60": ("accesses:promises_divisible", [4], [*_XY, ("n", I32, 60, "")]),
    "promises_divisible_by_8_of_56": ("accesses:promises_divisible", [4], [*_XY, ("n", I32, 56, "")]),
    "asserts_positive_of_normal": ("accesses:asserts_positive", [4], _XY),
    "asserts_positive_of_ones": ("accesses:asserts_positive", [4], [("y!", F32, [64], "empty"), ("x", F32, [64], "ones")]),
    "takes_log_of_normal": ("accesses:takes_log", [4], _XY),
    "takes_log_of_ones": ("accesses:takes_log", [4], [("y!", F32, [64], "empty"), ("x", F32, [64], "ones")]),
    "divides_by_zero_sum": ("accesses:divides_by_sum", [4], [("y!", F32, [64], "empty"), ("x", F32, [64], "zeros")]),
    "divides_by_a_sum": ("accesses:divides_by_sum", [4], [("y!", F32, [64], "empty"), ("x", F32, [64], "ones")]),
    "never_ends": ("accesses", [4], _XY),
    "waits_for_nobody": ("accesses", [4], _FLAG),
    "ends_after_a_while": ("accesses", [4], _XY),
    "grid_stride": ("tricky", [3], [*_XY, ("n", I32, 64, "")]),
    "work_queue": ("tricky", [3], [*_XY, ("ticket!", I32, [1], "zeros"), ("n", I32, 64, "")]),
    "spin_lock": ("tricky", [16], _LOCK),
    "ticket_lock": ("tricky", [4], [("total!", F32, [1], "zeros"), ("ticket!", I32, [1], "zeros"), ("serving!", I32, [1], "zeros"), _X]),
    "stream_k": ("tricky", [8], _PARTS),
    "chain_scan": ("tricky", [4], [_Y, ("carry!", F32, [4], "empty"), ("flag!", I32, [4], "zeros"), _X]),
    "in_place": ("tricky", [4], [("y!", F32, [64], "normal")]),
    "padded_in_place": ("tricky", [4], [("y!", F32, [60], "normal")]),
    "transpose_in_place": ("tricky", [4, 4], [("a!", F32, [16, 16], "normal")]),
    "two_pass": ("tricky", [4], [("total!", F32, [1], "empty"), ("partial!", F32, [4], "empty"), ("count!", I32, [1], "zeros"), _X]),
    "max_by_cas": ("tricky", [4], [("best!", I32, [1], "zeros"), _X]),
    "masked_diagonal": ("tricky", [4], _XY),
    "grid_barrier": ("tricky", [4], [_Y, ("tmp!", F32, [64], "empty"), ("arrived!", I32, [1], "zeros"), _X]),
    "barrier_in_place": ("tricky", [4], [("y!", F32, [64], "normal"), ("arrived!", I32, [1], "zeros")]),
    "stride_off_by_one": ("tricky", [3], [*_XY, ("n", I32, 64, "")]),
    "lock_without_release": ("tricky", [16], _LOCK),
    "lock_released_early": ("tricky", [16], _LOCK),
    "stream_k_flag_first": ("tricky", [8], _PARTS),
    "chain_wrong_flag": ("tricky", [4], [_Y, ("carry!", F32, [4], "empty"), ("flag!", I32, [4], "zeros"), _X]),
    "reads_again_after_release": ("tricky", [2], [("y!", F32, [64], "normal"), ("flag!", I32, [1], "zeros"), _X]),
    "middle_reader_is_not_ordered": ("tricky", [4], [("y!", F32, [64], "normal"), ("flag!", I32, [1], "zeros"), _X]),
    "transpose_twice": ("tricky", [4, 4], [("a!", F32, [16, 16], "normal")]),
    "last_block_misses_one": (
        "tricky",
        [4],
        [("total!", F32, [1], "empty"), ("partial!", F32, [4], "empty"), ("count!", I32, [1], "zeros"), _X],
    ),
    "broadcast_equal": ("tricky", [4], _XY),
    "barrier_missing": ("tricky", [4], [_Y, ("tmp!", F32, [64], "empty"), ("arrived!", I32, [1], "zeros"), _X]),
    "polls_without_atomics": ("tricky", [4], [_Y, ("flag!", I32, [1], "zeros"), _X]),
    "ticket_order_matters": ("tricky", [4], [_Y, ("ticket!", I32, [1], "zeros"), _X]),
    "lands_in_another": ("tricky", [4], [("y!", F32, [64], "empty"), ("z!", F32, [1024 * 1024], "empty"), ("x", F32, [64], "normal")]),
    "writes_the_input": ("tricky", [4], _XY),
    "in_helper": ("tricky", [4], _XY),
    "unicode": ("tricky:unicode_lines", [4], _XY),
    "sums_beyond_the_edge": ("padding", [4], _RAGGED),
    "sums_padded_rows": ("padding", [4], _RAGGED),
    "sums_masked_rows": ("padding", [4], _RAGGED),
    "sums_the_last_tile": ("padding", [4], [("y!", F32, [4], "empty"), ("x", F32, [60], "normal")]),
    "attends_beyond_the_edge": ("padding", [1], _HEADS),
    "attends_with_padding": ("padding", [1], _HEADS),
    "largest_beyond_the_edge": ("padding", [4], _RAGGED),
    "least_of_masked": ("padding", [4], _RAGGED),
    "scales_by_deviation": ("padding", [4], [("y!", F32, [4, 200], "empty"), ("x", F32, [4, 200], "normal")]),
    "adds_up_integers_beyond": ("padding", [4], [("y!", I32, [4], "empty"), ("x", I32, [4, 200], "arange")]),
    "all_are_positive": ("padding", [3], [("y!", I32, [3], "empty"), ("x", F32, [38], "ones")]),
    "counts_flags": ("padding", [4], _FLAGS),
    "counts_flags_inside": ("padding", [4], _FLAGS),
    "stores_the_tail": ("padding", [4], _TAIL),
    "uses_what_no_atomic_gave": ("padding", [1], [("y!", I32, [1], "empty"), ("x!", I32, [12], "zeros")]),
    "asserts_of_the_tail": ("padding", [4], [("y!", F32, [60], "empty"), ("x", F32, [60], "ones")]),
    "gathers_by_the_tail": ("padding", [4], [*_TAIL, ("index", I32, [60], "arange")]),
    "loops_by_the_tail": ("padding", [1], [("y!", F32, [1], "empty"), ("x", I32, [12], "ones")]),
    "needs_two_loads": ("padding", [1], [("y!", I32, [1], "empty"), ("a", I32, [12], "ones"), ("b", I32, [12], "ones")]),
    "gathers_beyond_a_row": ("padding", [4], [("y!", F32, [4, 16], "empty"), ("x", F32, [5, 12], "normal")]),
    "scatters_beyond_a_row": ("padding", [2], [("y!", F32, [4, 12], "empty"), ("x", F32, [2, 16], "normal")]),
    "gathers_up_to_the_row": ("padding", [4], [("y!", F32, [4, 16], "empty"), ("x", F32, [5, 12], "normal")]),
}


def manifest() -> str:
    """The text of tilec.toml."""
    lines = [
        "# Made by make_manifest.py: kernels with one bug each, and near misses that have none.",
        "edition = 1",
        "",
        "[package]",
        'name = "planted"',
        'version = "0.1.0"',
        "",
        "[targets]",
        'default = ["tileir"]',
    ]
    for name, (source, grid, params) in KERNELS.items():
        file, _, function = source.partition(":")
        lines += [
            "",
            f"[kernel.{name}]",
            f'source = "{file}.py:{function or name}"',
            f"launch = {{ grid = {[str(n) for n in grid]} }}".replace("'", '"'),
        ]
        for param, dtype, shape, _ in params:
            out = ", out = true" if param.endswith("!") else ""
            rank = f", rank = {len(shape)}" if isinstance(shape, list) else ""
            lines.append(f'params.{param.rstrip("!")} = {{ dtype = "{dtype}"{rank}{out} }}')
        lines.append(f"[kernel.{name}.case.planted]")
        for seed, (param, dtype, shape, dist) in enumerate(params):
            if not isinstance(shape, list):
                lines.append(f"inputs.{param} = {shape}")
                continue
            lines.append(f'inputs.{param.rstrip("!")} = {{ shape = {shape}, dtype = "{dtype}", dist = "{dist}", seed = {seed} }}')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("tilec.toml").write_text(manifest(), encoding="utf-8")
