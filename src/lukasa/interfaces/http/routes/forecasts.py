"""``/v1/forecasts``: predictions, their resolution and their scores."""

from __future__ import annotations

from lukasa.forecasts import Forecasts
from lukasa.interfaces.http.service_routes import ServiceRoutes

routes = ServiceRoutes("/v1/forecasts", lambda memory: memory.forecasts)
routes.add("GET", "", Forecasts.list, answer="predictions")
routes.add("POST", "", Forecasts.predict, status=201)
routes.add("GET", "/scores", Forecasts.scores)
routes.add("GET", "/calibration", Forecasts.learning)
routes.add("GET", "/metrics", Forecasts.metrics)
routes.add("GET", "/received", Forecasts.received, answer="signals")
routes.add("POST", "/expiry", Forecasts.expire_due, answer="expired")
routes.add("GET", "/markets/{market_id}", Forecasts.reasoning)
routes.add("POST", "/markets/{market_id}", Forecasts.reason, status=201)
routes.add("GET", "/{prediction_id}", Forecasts.get)
routes.add("GET", "/{prediction_id}/history", Forecasts.history, answer="versions")
routes.add("POST", "/{prediction_id}/revisions", Forecasts.revise)
routes.add("POST", "/{prediction_id}/resolution", Forecasts.resolve)
routes.add("POST", "/{prediction_id}/expiry", Forecasts.expire)
routes.add("POST", "/{prediction_id}/signals", Forecasts.signal, status=201)
