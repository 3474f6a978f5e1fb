"""What Nsight Compute prints of a launch, in the layouts of several versions."""

from __future__ import annotations

_LAUNCH = {
    "ID": ("", "0"),
    "Process ID": ("", "4711"),
    "Process Name": ("", "python3"),
    "Host Name": ("", "127.0.0.1"),
    "Kernel Name": ("", "scale"),
    "Context": ("", "1"),
    "Stream": ("", "7"),
    "Block Size": ("", "(256, 1, 1)"),
    "Grid Size": ("", "(4096, 1, 1)"),
    "Device": ("", "0"),
    "CC": ("", "9.0"),
}
_METRICS = {
    "dram__bytes_read.sum": ("byte", "4,194,304"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "88.20"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "88.20"),
    "gpu__time_duration.sum": ("ns", "4,100"),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": ("%", "31.5"),
    "launch__grid_size": ("", "4,096"),
    "launch__occupancy_limit_blocks": ("block", "32"),
    "launch__occupancy_limit_registers": ("block", "6"),
    "launch__occupancy_limit_shared_mem": ("block", "16"),
    "launch__registers_per_thread": ("register/thread", "40"),
    "launch__waves_per_multiprocessor": ("", "3.88"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "42.1"),
    "sm__maximum_warps_per_active_cycle_pct": ("%", "75"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "12.4"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "61.9"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "2.0"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "6.0"),
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio": ("inst", "1.0"),
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": ("inst", "1.0"),
}
_ROWS = {**_LAUNCH, **_METRICS}


def csv_row(*cells: str) -> str:
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


# A row for each launch, behind one of titles and one of units.
RAW = (
    "==PROF== Connected to process 4711 (/usr/bin/python3)\n"
    + csv_row(*_ROWS)
    + csv_row(*(unit for unit, _ in _ROWS.values()))
    + csv_row(*(value for _, value in _ROWS.values()))
)
# A row for each metric.
LONG = """\
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","scale(float *)","GPU Speed Of Light Throughput","sm__throughput.avg.pct_of_peak_sustained_elapsed","%","91.5"
"0","1","scale(float *)","GPU Speed Of Light Throughput","gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","%","20.25"
"0","1","scale(float *)","GPU Speed Of Light Throughput","gpu__time_duration.sum","usecond","1,205.00"
"0","1","scale(float *)","Occupancy","sm__warps_active.avg.pct_of_peak_sustained_active","%","n/a"
"""
_SOURCE = ("#", "Address", "Source", "Warp Stall Sampling (All Samples)", "Warp Stall Sampling (Not-issued Samples)", "# Samples")
# The instructions of a launch; columns of the same name, further behind, count samples at which nothing was issued.
SOURCE = (
    "Kernel Name,scale\n"
    + csv_row(*_SOURCE, "Instructions Executed", "stall_long_sb", "stall_wait", "stall_long_sb")
    + csv_row("1", "0x7f00", "      LDC R1, c[0x0][0x28] ", "1", "0", "1", "128", "0", "1", "0")
    + csv_row("2", "0x7f10", "      LDG.E R0, desc[UR4][R2.64] ", "1,000", "900", "1000", "128", "990", "10", "5")
    + csv_row("3", "0x7f20", "      EXIT ", "", "", "", "128", "", "", "")
)
