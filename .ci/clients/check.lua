-- A check that is never denied, for wrk.
wrk.method = "POST"
wrk.body = '{"key":"wrk","rate":"unlimited"}'
wrk.headers["Content-Type"] = "application/json"
