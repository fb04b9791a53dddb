-- Sends one text in each request and prints the figures as JSON.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BENCH_BODY")
done = function(summary, latency)
  local wrong = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('{"rate": %.1f, "p50": %.3f, "p99": %.3f, "longest": %.3f, "wrong": %d}\n',
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3, wrong))
end
