"""The policy of each kind of work. A job has none: it is claimed in SQL and never passes through workcoord."""

from types import MappingProxyType

from quarterdeck.core.workcoord.model import Binding, WorkKind, WorkPolicy

LEAF = WorkPolicy(binding=Binding.SESSION, max_failures=4)
SEARCH = WorkPolicy(binding=Binding.SESSION, max_failures=4)
EPOCH = WorkPolicy(binding=Binding.DURABLE, max_failures=8, held=True, lease_s=10.0)
FRAGMENT = WorkPolicy(binding=Binding.DURABLE, max_failures=8, pinned=True, resident=True)

POLICY_OF_KIND = MappingProxyType(
    {WorkKind.LEAF: LEAF, WorkKind.SEARCH: SEARCH, WorkKind.EPOCH: EPOCH, WorkKind.FRAGMENT: FRAGMENT}
)
