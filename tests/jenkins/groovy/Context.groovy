package jenkinsfile

import groovy.transform.CompileStatic

/** Where a step runs: node, workspace, environment, limits. Each block changes a copy of its own. */
@CompileStatic
class Context implements Cloneable {
    StageRecord stage
    Map<String, String> overrides = [:]
    String label
    Node node
    Allocation allocation
    File workspace
    File directory
    String image
    String imageArguments
    String post
    /** In a post block: the result that the block was chosen by. */
    String result
    List<Deadline> deadlines = []
    List<StopSignal> stops = []
    List<String> secrets = []
    List<String> resources = []
    boolean parallel

    Context copy() {
        Context twin = (Context) clone()
        twin.overrides = new LinkedHashMap<String, String>(overrides)
        twin.deadlines = new ArrayList<Deadline>(deadlines)
        twin.stops = new ArrayList<StopSignal>(stops)
        twin.secrets = new ArrayList<String>(secrets)
        twin.resources = new ArrayList<String>(resources)
        twin
    }

    /** Raise Interruption when a time limit has passed or a failed branch stops the others. */
    void checkStopped() {
        long now = System.currentTimeMillis()
        for (Deadline deadline : deadlines) {
            if (now >= deadline.at && deadline.seen.add(Thread.currentThread().id)) {
                throw new Interruption('Timeout has been exceeded', 'ABORTED', deadline)
            }
        }
        for (StopSignal stop : stops) {
            if (stop.reason != null && stop.seen.add(Thread.currentThread().id)) {
                throw new Interruption(stop.reason)
            }
        }
    }

    /** After branches have ended: what has stopped one of them has stopped this thread too. */
    void inherit() {
        long here = Thread.currentThread().id
        deadlines.each { Deadline deadline -> if (deadline.seen) { deadline.seen.add(here) } }
        stops.each { StopSignal stop -> if (stop.seen) { stop.seen.add(here) } }
    }

    String mask(String text) {
        String masked = text
        for (String secret : secrets) { masked = masked.replace(secret, '****') }
        masked
    }
}

/** Stops the branches of one `parallel`; each branch is told once, so that its `post` still runs. */
@CompileStatic
class StopSignal {
    volatile String reason
    final Set<Long> seen = Collections.synchronizedSet(new HashSet<Long>())
}

/** One agent taken: its workspace is new and empty, and its processes are found by the cookie. */
@CompileStatic
class Allocation {
    final String cookie = UUID.randomUUID().toString()
    File workspace
    File temporary
}
