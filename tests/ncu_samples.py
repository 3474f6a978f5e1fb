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

# Counters of launches on an H200 (driver 580.159, Nsight Compute 2025.3), a column for each; None was not printed.
H200_CASES = (
    "copied/large",
    "copied_wide/large",
    "waiting/some",
    "conflicted/some",
    "computed/some",
    "copied/few",
    "gemm/4k",
    "stencil/2k",
    "softmax/1k",
)
H200 = {
    "gpu__time_duration.sum": (202112, 126464, 260928, 2123296, 280960, 2336, 183712, 15424, 10624),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (39.86, 16.19, 1.55, 4.07, 96.07, 0.38, 88.26, 67.72, 22.62),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (53.29, 84.27, 11.71, 96.79, 0.32, 0.53, 67.03, 41.46, 37.73),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": (53.29, 84.27, 0.01, 0, 0, 0.17, 19.18, 24.18, 34.12),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": (64.52, 90.43, 6.69, 0.34, 0.71, 0.53, 66.31, 59.8, 69.02),
    "l1tex__throughput.avg.pct_of_peak_sustained_active": (18.54, 29.63, 12.24, 99.9, 0.19, 5.28, 70.25, 43.72, 28.73),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": (0, 0, 0, 0, 0, 0, 88.26, 0, 0.07),
    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed": (4.98, 2.02, 0.78, 1.55, 91.48, 0.03, 1.11, 27, 7.61),
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": (1.99, 0.81, 0.11, 2.68, 5.98, 0.01, 3.84, 49.86, 12.73),
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": (15.94, 6.47, 0.89, 4.07, 96.07, 0.1, 15.38, 67.72, 22.62),
    "memory_l1_wavefronts_shared": (0, 0, 0, 537001984, 0, 0, 25427968, 806912, 202752),
    "memory_l1_wavefronts_shared_ideal": (0, 0, 0, 16908288, 0, 0, 25427968, 806912, 202752),
    "memory_l2_theoretical_sectors_global": (16777216, 16777216, 30997824, 655360, 262144, 1024, 0, 1511040, 524288),
    "memory_l2_theoretical_sectors_global_ideal": (16777216, 16777216, 4228224, 655360, 262144, 1024, 0, 1118208, 524288),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (71.52, 77.94, 6.23, 90.77, 87.09, 12.18, 9.32, 87.5, 24.93),
    "sm__maximum_warps_per_active_cycle_pct": (100, 100, 6.25, 100, 100, 100, 12.5, 100, 50),
    "launch__waves_per_multiprocessor": (248.24, 62.06, 2, 3.88, 3.88, 0.02, 2, 3.88, 0.97),
    "launch__grid_size": (262144, 65536, 528, 4096, 4096, 16, 264, 4096, 512),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": (
        57.91,
        175.84,
        102.04,
        2.01,
        0.02,
        39.36,
        3.79,
        3.31,
        7.24,
    ),
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": (0.45, 0.47, 0, 244.67, 0.01, 0, 0.6, 0.16, 0.22),
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio": (0.21, 0.18, 0, 1.86, 12.56, 0.03, 0.04, 5.19, 0.48),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": (3.55, 3.28, 3.7, 1.19, 0.08, 3.32, 1.37, 1.66, 1.39),
}
