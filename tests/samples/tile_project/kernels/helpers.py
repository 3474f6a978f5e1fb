import cuda.tile as ct


@ct.function
def scaled(tile, factor):
    return tile * factor


def rounded_up(n, to):
    return -(-n // to) * to
