-- wrk's script: bodies in turn from a folder, and one JSON line of what came of them.
--   wrk … -s load.lua URL -- FOLDER HEADER_LENGTH
local bodies, threads, headers = {}, 0, {}

function init(args)
  for number = 0, 1e6 do
    local file = io.open(args[1] .. "/" .. number, "rb")
    if file == nil then break end
    bodies[#bodies + 1] = file:read("*a")
    file:close()
  end
  headers["Content-Type"] = "application/json"
  if args[2] ~= nil then headers["Inference-Header-Content-Length"] = args[2] end
end

local turn = 0
function request()
  turn = turn % #bodies + 1
  return wrk.format("POST", nil, headers, bodies[turn])
end

function done(summary, latency)
  local wrong = summary.errors
  print(string.format(
    '{"requests": %d, "us": %d, "p50": %d, "p99": %d, "errors": %d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout))
end
