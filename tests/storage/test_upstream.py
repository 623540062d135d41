"""Maps upstream's storage tests to ours.

`HERE` names, for each test of k8s.io/apiserver v0.36.3, our cases; `NOT_HERE` has the reason if there is none. A name that does
not exist any more fails. Upstream's files: pkg/storage/testing/{store,watcher}_tests.go, pkg/storage/etcd3/*_test.go and
pkg/storage/cacher/*_test.go, without tests of their internals (locks, buckets, buffers, metrics).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources import functions

ROOT = Path(__file__).parents[1]

# Upstream's test -> folder/module:case, ... The module's folder is left out within tests/storage.
HERE: dict[str, tuple[str, ...]] = {
    # store_tests.go
    "Create": (
        "contract_writes:create_makes_the_key_at_the_revision_returned",
        "registry/test_store_create:test_system_fields_are_wiped_and_filled",
    ),
    "CreateWithKeyExist": (
        "contract_writes:create_of_an_existing_key_shows_what_is_there",
        "registry/test_store_create:test_name_taken",
    ),
    "Get": (
        "registry/test_store_list:test_get_by_resource_version",
        "registry/test_store_list:test_get_of_the_future",
    ),
    "UnconditionalDelete": (
        "contract_writes:delete_has_a_revision_of_its_own",
        "contract_writes:delete_of_an_absent_key_is_not_found",
    ),
    "ConditionalDelete": (
        "registry/test_store_delete:test_preconditions",
        "registry/test_store_delete:test_preconditions_that_hold",
    ),
    "DeleteWithSuggestion": (
        "contract_writes:delete_at_another_revision_conflicts",
        "registry/test_store_delete:test_at_once",
    ),
    "DeleteWithSuggestionAndConflict": (
        "contract_writes:delete_at_another_revision_conflicts",
        "registry/test_store_delete:test_a_lost_race_is_run_again",
    ),
    "DeleteWithConflict": ("registry/test_store_delete:test_a_lost_race_is_run_again",),
    "DeleteWithSuggestionOfDeletedObject": ("contract_writes:delete_of_an_absent_key_is_not_found",),
    "ValidateDeletionWithSuggestion": (
        "registry/test_store_delete:test_admission_sees_what_goes",
        "registry/test_store_delete:test_a_lost_race_is_run_again",
    ),
    "ValidateDeletionWithOnlySuggestionValid": ("registry/test_store_delete:test_a_lost_race_is_run_again",),
    "PreconditionalDeleteWithSuggestion": ("registry/test_store_delete:test_preconditions_that_hold",),
    "PreconditionalDeleteWithOnlySuggestionPass": ("registry/test_store_delete:test_preconditions",),
    "List": (
        "registry/test_store_list:test_selected",
        "registry/test_store_list:test_resource_versions",
        "registry/test_store_list:test_of_the_future",
        "registry/test_store_list:test_exactly_at_a_forgotten_revision",
        "contract_lists:list_at_an_old_revision_shows_the_state_then",
    ),
    "ConsistentList": (
        "contract_lists:a_paged_list_is_consistent_while_writes_go_on",
        "contract_lists:a_list_after_a_write_has_it",
    ),
    "GetListNonRecursive": ("registry/test_store_list:test_selected",),
    "GetListRecursivePrefix": (
        "contract_lists:list_stays_under_its_prefix",
        "contract_watches:watch_is_limited_to_its_prefix",
    ),
    "ListContinuation": (
        "contract_lists:list_in_pages",
        "registry/test_store_list:test_pages",
    ),
    "ListPaginationRareObject": ("test_cacher_reads:test_list_with_a_selector_goes_on_after_the_last_one_looked_at",),
    "ListContinuationWithFilter": (
        "registry/test_store_list:test_nothing_is_known_of_the_rest_of_a_selection",
        "test_cacher_reads:test_list_at_every_old_revision",
    ),
    "ListInconsistentContinuation": (
        "registry/test_store_list:test_continue_after_compaction",
        "integration/test_expired:test_expired",
    ),
    "ListResourceVersionMatch": ("registry/test_store_list:test_resource_versions",),
    "ListPaging": (
        "registry/test_store_list:test_pages",
        "registry/test_store_list:test_pages_are_of_one_moment",
        "contract_lists:a_list_starts_anywhere",
    ),
    "NamespaceScopedList": (
        "registry/test_store_list:test_selected",
        "registry/test_store_list:test_fields_of_a_cluster_scoped_resource",
    ),
    "GuaranteedUpdate": (
        "contract_writes:update_keeps_the_creation_and_moves_the_revision",
        "registry/test_store_update:test_no_change_is_no_write",
    ),
    "GuaranteedUpdateChecksStoredData": (
        "registry/test_store_update:test_a_change_of_type_is_a_write",
        "registry/test_store_versions:test_no_change_in_another_version_is_no_write",
    ),
    "GuaranteedUpdateWithConflict": (
        "contract_writes:counters_by_compare_and_swap_lose_no_step",
        "registry/test_store_update:test_a_lost_race_runs_the_transform_again",
    ),
    "GuaranteedUpdateWithSuggestionAndConflict": (
        "contract_writes:update_at_another_revision_conflicts_and_shows_the_newest",
        "registry/test_store_update:test_a_lost_race_runs_the_transform_again",
    ),
    "Stats": (
        "contract_lists:count_follows_creations_and_deletions",
        "registry/test_store_list:test_count",
    ),
    "CompactRevision": (
        "contract_history:compaction_keeps_the_state_at_its_revision_and_all_after",
        "contract_history:compaction_never_goes_back",
    ),
    "KeySchema": (
        "test_keys:test_split",
        "registry/test_store_update:test_names_that_are_no_key",
    ),
    # watcher_tests.go
    "Watch": (
        "contract_watches:watch_delivers_what_is_written",
        "test_cacher_watches:test_watch_with_a_selector",
        "registry/test_store_watch:test_transitions",
    ),
    "WatchFromZero": (
        "registry/test_store_watch:test_beginnings",
        "contract_history:a_compacted_deletion_does_not_take_its_revision_along",
    ),
    "DeleteTriggerWatch": ("contract_watches:watch_delivers_what_is_written",),
    "WatchFromNonZero": (
        "contract_watches:watch_delivers_the_past_then_the_present",
        "test_cacher_watches:test_watch_from_a_revision",
    ),
    "DelayedWatchDelivery": (
        "test_cacher_readers:test_all_that_is_pending_comes_at_once",
        "test_cacher_readers:test_much_that_is_pending_comes_in_parts",
    ),
    "WatchContextCancel": (
        "contract_watches:a_closed_subscription_is_silent",
        "test_cacher_ends:test_a_closed_watch_is_over_and_forgotten",
    ),
    "WatcherTimeout": ("test_cacher_readers:test_a_slow_watch_is_ended_and_the_others_go_on",),
    "WatchDeleteEventObjectHaveLatestRV": (
        "test_cacher_watches:test_a_deletion_shows_the_last_content_at_its_own_revision",
        "registry/test_store_watch:test_a_deleted_object_has_the_revision_of_its_end",
    ),
    "WatchInitializationSignal": ("registry/test_store_watch:test_beginnings",),
    "OptionalTestProgressNotify": ("contract_watches:watch_reports_progress_when_asked",),
    "ClusterScopedWatch": (
        "registry/test_store_watch:test_beginnings",
        "registry/test_store_list:test_fields_of_a_cluster_scoped_resource",
    ),
    "NamespaceScopedWatch": (
        "test_cacher_watches:test_watch_of_a_namespace_and_of_one_key",
        "registry/test_store_watch:test_one_namespace",
    ),
    "WatchDispatchBookmarkEvents": (
        "registry/test_store_watch:test_bookmarks",
        "endpoints/handlers/test_watches:test_bookmarks",
    ),
    "OptionalWatchBookmarksWithCorrectResourceVersion": (
        "test_cacher_bookmarks:test_bookmarks_follow_what_was_told",
        "test_cacher_bookmarks:test_no_bookmark_before_the_past_is_told",
    ),
    "SendInitialEventsBackwardCompatibility": ("registry/test_store_watch:test_beginnings",),
    "WatchSemantics": (
        "registry/test_store_watch:test_beginnings",
        "test_cacher_bookmarks:test_initial_events_end_with_their_bookmark",
    ),
    "WatchSemanticInitialEventsExtended": ("test_cacher_bookmarks:test_initial_events_not_older_than",),
    "WatchListMatchSingle": ("registry/test_store_watch:test_beginnings",),
    # etcd3
    "etcd3 Compact": (
        "test_compactor:test_history_is_kept_for_an_interval",
        "contract_history:compaction_lets_running_subscriptions_be",
    ),
    "etcd3 LinearizedReadRevisionInvariant": (
        "contract_lists:list_is_at_the_stores_revision_not_its_items",
        "contract_lists:a_list_after_a_write_has_it",
    ),
    "etcd3 InvalidKeys": ("registry/test_store_update:test_names_that_are_no_key",),
    "etcd3 GetCurrentResourceVersion": (
        "contract_history:a_compacted_deletion_does_not_take_its_revision_along",
        "contract_writes:one_counter_runs_over_all_keys",
    ),
    "etcd3 PrefixGetKeys": ("contract_lists:list_sorts_by_bytes_of_the_key",),
    "etcd3 TooLargeResourceVersionErrorForWatchList": ("registry/test_store_watch:test_of_the_future",),
    "etcd3 WatchChanSync": ("contract_watches:watch_delivers_the_past_then_the_present",),
    # cacher
    "cacher CacheWatcherHandlesFiltering": ("test_cacher_watches:test_watch_with_a_selector",),
    "cacher CacheWatcherStoppedInAnotherGoroutine": ("test_cacher_ends:test_a_closed_watch_is_over_and_forgotten",),
    "cacher ResourceVersionAfterInitEvents": ("test_cacher_bookmarks:test_initial_events_end_with_their_bookmark",),
    "cacher CacheWatcherDraining": ("test_cacher_ends:test_closing_the_cacher_ends_watches_after_what_is_pending",),
    "cacher ConsistentReadFallback": (
        "test_cacher_reads:test_sync_comes_to_writes_of_other_prefixes",
        "registry/test_store_list:test_what_another_writer_wrote_is_read",
    ),
    "cacher MatchExactResourceVersionFallback": (
        "test_cacher_reads:test_list_at_every_old_revision",
        "test_cacher_window:test_watch_and_list_from_before_the_window",
    ),
    "cacher EmptyWatchEventCache": (
        "test_cacher_watches:test_watch_from_the_future",
        "test_cacher_watches:test_watch_from_a_compacted_revision",
    ),
    "cacher WatchNotHangingOnStartupFailure": ("test_cacher_loss:test_a_failed_load_is_told_and_tried_again",),
    "cacher WatcherNotGoingBackInTime": ("test_cacher_watches:test_list_then_watch_is_a_later_list_while_writers_run",),
    "cacher CacherDontAcceptRequestsStopped": (
        "test_cacher_ends:test_closing_the_cacher_ends_watches_after_what_is_pending",
        "registry/test_store_list:test_closed",
    ),
    "cacher CacherDontMissEventsOnReinitialization": (
        "test_cacher_loss:test_a_lost_store_is_followed_again_without_a_gap",
        "test_cacher_loss:test_a_compacted_store_is_loaded_anew_and_watches_end",
    ),
    "cacher CacherNoLeakWithMultipleWatchers": (
        "test_cacher_ends:test_a_closed_watch_is_over_and_forgotten",
        "endpoints/handlers/test_watches:test_a_client_that_goes_away_frees_its_watch",
    ),
    "cacher CacherSendBookmarkEvents": (
        "endpoints/handlers/test_watches:test_bookmarks",
        "endpoints/handlers/test_watches:test_no_bookmarks_unless_asked_for",
        "endpoints/handlers/test_watches:test_no_last_bookmark_in_a_short_watch",
    ),
    "cacher InitialEventsEndBookmark": (
        "endpoints/handlers/test_watches:test_initial_events",
        "endpoints/handlers/test_watches:test_a_watch_without_a_revision_is_told_where_the_state_ends",
    ),
    "cacher BookmarksOnResourceVersionUpdates": ("test_cacher_bookmarks:test_bookmarks_follow_what_was_told",),
    "cacher StartingResourceVersion": ("test_cacher_watches:test_watch_from_a_revision",),
    "cacher DispatchEventWillNotBeBlockedByTimedOutWatcher": (
        "test_cacher_readers:test_a_slow_watch_is_ended_and_the_others_go_on",
        "test_cacher_readers:test_a_slow_watch_holds_nothing_once_it_is_ended",
    ),
    "cacher CachingDeleteEvents": ("test_cacher_watches:test_a_deletion_shows_the_last_content_at_its_own_revision",),
    "cacher CachingObjects": (
        "test_cacher_readers:test_watches_share_their_events",
        "registry/test_cache_memory:test_a_change_keeps_what_it_replaced_and_nothing_of_its_watches",
    ),
    "cacher WaitUntilFreshAndList": ("test_cacher_reads:test_wait_for_a_revision_that_comes",),
    "cacher WaitUntilFreshAndListTimeout": (
        "test_cacher_reads:test_list_at_a_compacted_or_a_future_revision",
        "registry/test_store_list:test_of_the_future",
    ),
    "cacher WatchListIsSynchronisedWhenNoEventsFromStoreReceived": (
        "test_cacher_bookmarks:test_initial_events_end_with_their_bookmark",
    ),
    "cacher ComputeListLimit": ("registry/test_store_list:test_resource_versions",),
    "cacher ListerWatcherListResourceVersionPropagation": ("test_cacher_loss:test_one_load_for_all_who_wait",),
    "cacher Events": ("test_cacher_window:test_window",),
    "cacher DynamicCache": (
        "test_cacher_window:test_window",
        "test_cacher_window:test_what_is_deleted_counts",
    ),
    "cacher CacheSnapshots": ("test_cacher_reads:test_list_at_every_old_revision",),
    "cacher HasPathPrefix": ("test_keys:test_ancestors_and_ends",),
}

_NO_LEASES = "custom resources have no time to live, so nothing of ours needs leases"
_NO_TRANSFORMERS = "values are not encrypted by the server"
_ONE_WAY = "there is one way from a request to its answer, with no delegate to compare or to choose"

NOT_HERE: dict[str, str] = {
    "CreateWithTTL": _NO_LEASES,
    "GuaranteedUpdateWithTTL": _NO_LEASES,
    "etcd3 LeaseMaxObjectCount": _NO_LEASES,
    "etcd3 GetReuseDurationSeconds": _NO_LEASES,
    "TransformationFailure": _NO_TRANSFORMERS,
    "WatchError": _NO_TRANSFORMERS,
    "WatchErrorIsBlockingFurtherEvents": _NO_TRANSFORMERS,
    "WatchWithUnsafeDelete": "what can't be read is the registry's to know: tests/registry/test_unreadable.py",
    "etcd3 CompactConflict": "turns among replicas are etcd's store's own, and tested there",
    "etcd3 WatchErrorIncorrectConfiguration": "a cacher is always given what it needs: types see to it",
    "cacher ShouldDelegateList": _ONE_WAY,
    "cacher GetCacheBypass": _ONE_WAY,
    "cacher WatchCacheBypass": _ONE_WAY,
    "cacher ConsistencyChecker": _ONE_WAY,
    "cacher TooManyRequestsNotReturned": "whoever comes while the cache loads waits for it",
    "cacher RetryAfterForUnreadyCache": "whoever comes while the cache loads waits for it",
    "cacher CacheIntervalInvalidationStopsWatch": "a watch takes its part of the window at its beginning, and holds it",
    "cacher FilterWithAttrsAndPrefixFunction (sharding)": "shard selectors are an alpha feature that is off",
}


@pytest.mark.parametrize("name", HERE)
def test_is_tested_here(name: str) -> None:
    for place in HERE[name]:
        module, case = place.split(":")
        folder = ROOT if "/" in module else ROOT / "storage"
        assert case in functions(folder / f"{module}.py"), place


def test_nothing_is_both() -> None:
    assert not HERE.keys() & NOT_HERE.keys()
    assert all(NOT_HERE.values())
