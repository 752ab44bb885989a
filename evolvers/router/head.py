"""The routing head: cross-attention from a state to the agents, and the probability of a draw (App. D.1).

    X~     = [X; c]                         rows of the state, and the mean agent of earlier layers   (Eq. 22, 23)
    Q,K,V  = X~ W_Q, E W_K, E W_V                                                                     (Eq. 24)
    H, h   = softmax(Q K^T / sqrt d) V; the mean of its rows                                          (Eq. 25, 26)
    alpha  = cos(h, e_i)                                                                              (Eq. 10)
    exit   = sigmoid((w . mean of the rows of X~ + b) / lambda + logit of the start), before each layer    (D28)

Only this module imports torch at its top: import it inside the function that needs a head. B decisions, M rows,
L layers, N agents, d dimensions; all layers of all decisions are one batch, as c is known once a workflow is drawn.
"""

import math
from typing import NamedTuple

from selfwire.core.errors import refuse_missing
from selfwire.evolvers.router.config import EXIT_START, HeadConfig

refuse_missing("torch", "the trained router")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class EncodedInputs(NamedTuple):
    """The part of a head's computation that all layers share.

    Attributes:
        agents: (N, d) embeddings.
        keys, values: (N, d) K and V.
        present: (B, N) True where an agent is in the decision's pool.
        attended: (B, 1, N) attention of the state's rows, or their products with the keys, summed.
        summed: (B, 1, d) the state's rows, summed.
        rows: (B, 1, 1) number of rows of the state.
    """

    agents: Tensor
    keys: Tensor
    values: Tensor
    present: Tensor
    attended: Tensor
    summed: Tensor
    rows: Tensor


class RoutingHead(nn.Module):
    """W_Q, W_K and W_V, each (d, d), and w and b of Early-exit, (d + 1); a linear one leaves W_V alone.

    Agents enter by their embeddings, in any number.
    """

    def __init__(self, dimensions: int, config: HeadConfig = HeadConfig()) -> None:
        super().__init__()
        self.dimensions, self.config = dimensions, config
        self.query, self.key, self.value = (nn.Parameter(torch.eye(dimensions)) for _ in range(3))
        if config.init == "xavier":
            source = torch.Generator().manual_seed(config.seed)  # torch's own randomness is left alone
            for weight in (self.query, self.key, self.value):
                nn.init.xavier_uniform_(weight, generator=source)
        self.exit = nn.Parameter(torch.zeros(dimensions + 1))

    def forward(self, rows: Tensor, filled: Tensor, agents: Tensor, present: Tensor, contexts: Tensor) -> Tensor:
        """Cosines alpha of shape (B, L, N) for drawn workflows; arguments as in `Batch`."""
        return self.scores(self.read(rows, filled, agents, present), contexts)

    def read(self, rows: Tensor, filled: Tensor, agents: Tensor, present: Tensor) -> EncodedInputs:
        """Compute the part that all layers share; arguments as in `Batch`."""
        seen = self._normalised(agents)
        keys, values = seen @ self.key, seen @ self.value
        attended = torch.where(filled[..., None], self._attention(rows, keys, present), 0.0)
        summed = torch.where(filled[..., None], self._normalised(rows), 0.0).sum(dim=1, keepdim=True)
        return EncodedInputs(
            agents, keys, values, present, attended.sum(dim=1, keepdim=True), summed, filled.sum(dim=1)[:, None, None]
        )

    def scores(self, read: EncodedInputs, contexts: Tensor) -> Tensor:
        """Cosines alpha of shape (B, L, N), to be divided by the softness, for contexts c of shape (B, L, d)."""
        if self.config.reads == "everything":
            context = self._attention(contexts, read.keys, read.present)
            mean = (read.attended + context) / (read.rows + 1)
        else:
            mean = (read.attended / read.rows).expand(-1, contexts.shape[1], -1)
        if self.config.design == "linear":
            return mean
        pooled = mean @ read.values  # mean of H, with V outside the sum
        return functional.normalize(pooled, dim=-1) @ functional.normalize(read.agents, dim=-1).T

    def exit_logits(self, read: EncodedInputs, contexts: Tensor, softness: float) -> Tensor:
        """Logits (B, L) of Early-exit before each layer, for contexts c of shape (B, L, d) and the agents' lambda."""
        if self.config.reads == "everything":
            mean = (read.summed + self._normalised(contexts)) / (read.rows + 1)
        else:
            mean = (read.summed / read.rows).expand(-1, contexts.shape[1], -1)
        start = math.log(EXIT_START / (1 - EXIT_START))
        return (mean @ self.exit[:-1] + self.exit[-1]) / softness + start

    def _attention(self, rows: Tensor, keys: Tensor, present: Tensor) -> Tensor:
        """Attention of each row to the agents of the pool (B, rows, N); without a softmax the products themselves."""
        normalised, count = self._normalised(rows), rows.shape[0] * rows.shape[1]
        few = count <= len(keys)  # the cheaper order of the products
        scores = (normalised @ self.query) @ keys.T if few else normalised @ (self.query @ keys.T)
        if self.config.design != "attention":
            return scores.masked_fill(~present[:, None, :], 0.0) / self.dimensions
        return torch.softmax((scores / math.sqrt(self.dimensions)).masked_fill(~present[:, None, :], -math.inf), dim=-1)

    def _normalised(self, rows: Tensor) -> Tensor:
        return functional.layer_norm(rows, (self.dimensions,)) if self.config.normalised else rows


def sequence_log_probability(logits: Tensor, order: Tensor) -> Tensor:
    """Log P of drawn orders (Eq. 28), with gradients; `sampling.log_probability` is without.

    Args:
        logits: (..., N); minus infinity for agents that could not be drawn.
        order: (..., K) indices in the order of drawing, -1 behind the last.

    Returns:
        Shape (...), 0 without a draw.
    """
    drawn, places = order >= 0, order.clamp(min=0)
    chosen = functional.one_hot(places, logits.shape[-1]).bool() & drawn[..., None]
    gone = chosen.cumsum(dim=-2).bool() & ~chosen  # drawn before each place
    left = logits[..., None, :].masked_fill(gone, -math.inf)
    left = torch.where(drawn[..., None], left, 0.0)  # the gradient of a row of minus infinities would be NaN
    steps = torch.gather(left, -1, places[..., None]).squeeze(-1) - torch.logsumexp(left, dim=-1)
    return torch.where(drawn, steps, 0.0).sum(dim=-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of softmax(logits) over the last dimension, without agents at minus infinity."""
    log_shares = torch.log_softmax(logits, dim=-1)
    finite = torch.isfinite(log_shares)
    shares = torch.where(finite, log_shares, 0.0)
    return -torch.where(finite, shares.exp() * shares, 0.0).sum(dim=-1)


def get_device(name: str) -> torch.device:
    """The device that a config names.

    Raises:
        ValueError: the config names CUDA and there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, and torch finds none here; choose auto or cpu")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")
