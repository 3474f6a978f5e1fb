from kernels.helpers import rounded_up

BLOCK = rounded_up(200, 128)
