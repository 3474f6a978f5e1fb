"""The text of a kernel's fast paths, which `fastpath.py` fills in and unrolls over the parameters."""

from __future__ import annotations

# Three ways to find what a launch needs, the shortest first:
# - `recent`: the last launch of tilec's own tensors, of which nothing is changed; its argument memory is never written again. Whether
#   they may still be used so is looked at where an epoch has ended since then;
# - `guard`: the facts of torch tensors are those of a launch before, by one test for all of them;
# - `plans`: by everything that was read of the arguments.
PATHS = """
def meet(kind):
    global Tensor
    Tensor = kind

def launch(stream, values, choices=()):
    global recent, guard, plan_before
    if choices:
        return chosen(stream, values, choices)
    try:
        {unpack} = values
        s = stream._handle if type(stream) is Stream else stream if type(stream) is int else handles[type(stream)](stream)
        t = {kind}
        known = False
        if t is Tensor:
            {same} = recent
            try:
                known = {known}
            except AttributeError:
                pass
            if known and looked is not epoch.now:
                now = epoch.now
                known = {free}
                if known:
                    recent = {same_now}
        if not known:
            plan = None
            if t in torch_types:
                {guard} = guard
                if {guarded}:
                    {addresses}
                    if {even}:
                        plan = guarded
            if plan is None:
                now = epoch.now
{read}
                plan = plans[{key}]
                if t in torch_types:
                    if plan is plan_before and {even}:
                        made = plan.guard({tensors})
                        if made is not None:
                            guard = {guards}
                    plan_before = plan
            call = plan.calls[s]
    except Exception:
        known, plan = False, None
    if known:
        result = function(first, second, address, {held})[0]
        if result:
            recent = none_before
            failed(*parts, stream, result)
        return
    if plan is None:
        return slow(stream, values)
{tail}

def owned(ctx, op):
    global latest, other
    values, looks = op._values, op._looks
    {unpack} = values
    wrote, read = ctx._wrote, ctx._read
    inside = {inside}
    if not inside:
{touch}
    s = ctx.stream
    {latest} = latest
    if (looks is ql or looks == ql) and qs == s{numbers}:
        result = function(first, second, address, {held})[0]
        if result:
            known.clear()
            latest = other = none_latest
            failed(*parts, s, result)
    else:
        launch_anew(s, values, looks)
    alone = references(values) == n
    if alone and inside and {alone}:
        {looked} = looks
        op._values, op._looks = (), None
        spare = op._origin.spare
        if op._way is not None and spare[5] is None:  # no chain has a hint, which takes ops unasked
            spare[0] = op
        return values
    return op._settled(ctx, alone)

def along(ctx, handed, left, told, hinted, passing):
    global latest, other
    count, there, empty = references, moved, ()
    value, verb, place = None, "", None
    kind, way, spare, s = type(handed[0]), handed[0]._way, handed[0]._origin.spare, ctx.stream
    same, before, turns, calm = None, None, None, None
    shelf = spare if spare[5] is None else [None]
    try:
        value = handed.pop()
        while True:
            value = owned(ctx, value)
            if calm is not None:
                calm.forget()
            wrote, read = ctx._wrote, ctx._read
            {latest} = latest
            {second_latest} = other
            if qs != s:
                ql = None
            if os != s:
                ol = None
            known_in = other_in = None  # the epochs in which the tensors of the two launches were found in the order of the execution
            for found in left:
                if found is same:
                    if turns is not None:
                        if rest and sure is epoch.now and ctx._wrote is wrote:
                            tfunction, tfirst, tsecond, taddress, tparts, given = turns[rest & 1]
                            rest -= 1
                            result = tfunction(tfirst, tsecond, taddress, {held})[0]
                            if result:
                                known.clear()
                                latest = other = none_latest
                                ql = ol = None
                                try:
                                    failed(*tparts, s, result)
                                except BaseException:
                                    value = step(value)  # the op that could not be launched
                                    raise
                            value = given
                            continue
                        turns = given = None
                    value = step(value)
                else:
                    if same is not None:
                        same, spare[1:6] = None, no_hint
                        calm = turns = given = None
                    verb, step, place = found
                    if verb != "then":
                        return value, found
                    value = step(value)
                    if found is before and getattr(value, "_way", None) is way:
                        same, spare[0:6] = found, (None, *hinted(step, value))
                        shelf = [None] if followed() else spare
                        calm = passing(step)
                    before = found
                try:
                    if value._way is not way or count(value) != local:
                        return value, (verb, None, place)
                except AttributeError:
                    return value, (verb, None, place)
                looks, values = value._looks, value._values
                {unpack} = values
                if ctx._wrote is not wrote:
                    break
                if not (looks is ql and known_in is epoch.now or looks is ol and other_in is epoch.now):
                    now = epoch.now
                    if not ({inside}):
                        break
                    if looks is ql:
                        known_in = now
                    elif looks is ol:
                        other_in = now
                if looks is ql{numbers}:
                    result = function(first, second, address, {held})[0]
                elif looks is ol{second_numbers}:
                    result = ofunction(ofirst, osecond, oaddress, {held})[0]
                    if result:
                        parts = oparts
                else:
                    launched = known.get((s, looks))
                    if launched is None:
                        break
                    {second_latest} = launched
                    other_in = None
                    if not (True{second_numbers}):
                        break
                    result = ofunction(ofirst, osecond, oaddress, {held})[0]
                    if result:
                        parts = oparts
                if result:
                    known.clear()
                    latest = other = none_latest
                    ql = ol = calm = None
                    failed(*parts, s, result)
                if {alone_here}:
                    {looked} = looks
                    value._values = empty; value._looks = None; shelf[0] = value
                    value = values
                    if calm is not None:
                        if looks is ql{numbers}:
                            turns = calm.met((function, first, second, address, parts), values)
                        else:
                            turns = calm.met((ofunction, ofirst, osecond, oaddress, oparts), values)
                        if turns is not None:
                            rest, sure = calm.most, turns[2]
                        elif not calm.trials:
                            calm = None
                else:
                    value = value._settled(ctx, True)
                    if calm is not None:
                        calm.forget()
            else:
                return value, None
            {drop} = None
    except BaseException as error:
        if type(value) is kind and value._looks is not None:
            value._failed(error)
        if place is not None:
            told(error, verb, place)
        raise
    finally:
        if same is not None:
            spare[1:6] = no_hint

def launch_anew(stream, values, looks):
    global latest, other
    s = stream
    found = other if looks is other_looks(other) and s == other_stream(other) else known.get((s, looks))
    if found is not None:
        {unpack} = values
        {latest} = found
        if qs == s{numbers}:
            if found is not other:
                latest, other = found, latest
            result = function(first, second, address, {held})[0]
            if result:
                known.clear()
                latest = other = none_latest
                failed(*parts, s, result)
            return
    {unpack} = values
    try:
{looks}
        plan = plans[{key}]
        call = plan.calls[s]
    except Exception:
        return launch(s, {raw})
{tail_of_owned}
"""
# With a plan, a call and packed arguments: to the driver.
TAIL = """    try:
        block = plan.blocks.pop()
    except IndexError:
        block = plan.new_block()
    packed = {packed}
    same = packed == block.packed
    if {changed}:
        if plan.plain:
{apart}
            try:
                plan.pack(block.values, 0, *packed)
                block.packed = packed
            except Exception:
                plan.refill(block, packed, values)
        else:
            plan.refill(block, packed, values)
    result = call(block.address, {held})[0]
    if result:
        failed(plan, call, block, stream, result)
        plan.blocks.append(block)
    elif {often}:
        {remember}
    else:
        plan.blocks.append(block)
"""
