-- Sends one text in each request, the bodies of a file (BENCH_BODIES) in turn, and prints the figures as JSON.
local bodies, sent = {}, 0
for line in io.lines(os.getenv("BENCH_BODIES")) do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
init = function()
  for n = 1, #bodies do bodies[n] = wrk.format(nil, nil, nil, bodies[n]) end
end
request = function()
  sent = sent % #bodies + 1
  return bodies[sent]
end
done = function(summary, latency)
  local wrong = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  -- A refusal is not an answer, and quick.
  local answered = summary.requests - summary.errors.status
  io.write(string.format('{"rate": %.1f, "p50": %.3f, "p99": %.3f, "longest": %.3f, "wrong": %d}\n',
    answered / (summary.duration / 1e6), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3, wrong))
end
