"""What tokens cost, from the tables that come with `genai-prices`; nothing is downloaded."""

import genai_prices
from genai_prices.types import PriceCalculation

from forklift.core.model_access import ModelChoice
from forklift.sidecar.metering import Tokens
from forklift.sidecar.spending import Price


def price_of(choice: ModelChoice) -> Price:
    """By the provider's name, else by its address, else by the model's name alone."""

    def price(tokens: Tokens) -> float | None:
        usage = genai_prices.Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cached,
            cache_write_tokens=tokens.cache_written,
        )
        for look_up in (by_name, by_address, by_model):
            try:
                return float(look_up(usage).total_price)
            except (LookupError, ValueError):
                continue
        return None

    def by_name(usage: genai_prices.Usage) -> PriceCalculation:
        return genai_prices.calc_price(usage, choice.model, provider_id=choice.provider.name)

    def by_address(usage: genai_prices.Usage) -> PriceCalculation:
        url = choice.provider.base_url
        return genai_prices.calc_price(usage, choice.model, provider_api_url=url)

    def by_model(usage: genai_prices.Usage) -> PriceCalculation:
        return genai_prices.calc_price(usage, choice.model)

    return price
