"""Virtual time, and threads as greenlets that one seed puts in order.

    kernel = Kernel(seed)
    process = kernel.spawn("driver")             a simulated process
    thread = process.start(function, *arguments) a thread of it
    with substituted(modules_of("kfetch"), all_modules(kernel)):
        kernel.run(until=60.0)                   steps until then, or until all is quiet

Within a simulated thread:

    kernel.sleep(seconds)                        wait
    kernel.wait(waiters, deadline)               wait until somebody wakes the list; False: too late
    kernel.wake(waiters), kernel.wake_one(…)     make waiting threads ready
    kernel.pause_point()                         another thread may go first

From anywhere:

    kernel.now, kernel.wall                      seconds: steady, and as a clock on the wall shows
    kernel.at(time, call, *arguments)            a call in the scheduler's own thread
    process.kill()                               as kill -9: no ``finally`` runs
    process.freeze(), process.thaw()             as SIGSTOP and SIGCONT
    process.on_end(call)                         what a real kernel releases when a process ends

scheduler.py     the scheduler: threads, timers, processes
stand_ins.py     ``time``, ``threading``, ``queue`` and ``random``
substitution.py  puts stand-ins into the modules of the product
"""

from simulation.kernel.scheduler import Crash, Kernel, Process, Thread

__all__ = ["Crash", "Kernel", "Process", "Thread"]
