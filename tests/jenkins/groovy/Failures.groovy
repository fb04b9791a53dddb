package jenkinsfile

import groovy.transform.CompileStatic
import groovy.transform.InheritConstructors

/** What is wrong with the command line: one line, exit code 64. */
@CompileStatic
@InheritConstructors
class UsageError extends RuntimeException { }

/** A step failed: the build's result becomes FAILURE unless something catches it. */
@CompileStatic
@InheritConstructors
class StepFailure extends RuntimeException { }

/** The build, a branch or a block was stopped. While `actual`, the stop comes from outside the block that sees it. */
@CompileStatic
class Interruption extends RuntimeException {
    final String result
    final Deadline deadline
    boolean actual = true

    Interruption(String message, String result = 'ABORTED', Deadline deadline = null) {
        super(message)
        this.result = result
        this.deadline = deadline
    }
}

/** The time limit of one `timeout`. It stops each thread once: what runs afterwards, such as `post`, goes on. */
@CompileStatic
class Deadline {
    final long limitMs
    final boolean activity
    volatile long at
    final Set<Long> seen = Collections.synchronizedSet(new HashSet<Long>())

    Deadline(long limitMs, boolean activity) {
        this.limitMs = limitMs
        this.activity = activity
        this.at = System.currentTimeMillis() + limitMs
    }

    /** Start again: with `activity: true` only silence counts. */
    void output() { if (activity) { at = System.currentTimeMillis() + limitMs } }
}

/** Jenkins' results, from best to worst. */
@CompileStatic
class Results {
    static final List<String> ORDER = ['SUCCESS', 'UNSTABLE', 'FAILURE', 'NOT_BUILT', 'ABORTED'].asImmutable()
    static final Map<String, Integer> EXIT_CODES =
        [SUCCESS: 0, UNSTABLE: 10, FAILURE: 1, NOT_BUILT: 1, ABORTED: 11].asImmutable()

    static String worst(Collection<String> results) {
        String found = 'SUCCESS'
        for (String result : results) {
            if (result != null && ORDER.indexOf(result) > ORDER.indexOf(found)) { found = result }
        }
        found
    }

    static String of(Throwable error) {
        error == null ? 'SUCCESS' : error instanceof Interruption ? ((Interruption) error).result : 'FAILURE'
    }
}
