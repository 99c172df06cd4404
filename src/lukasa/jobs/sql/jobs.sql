-- Two tables are added to procrastinate's: the migrations that were applied, and the error of each failed attempt.

-- name: enter
-- Make procrastinate's tables visible, and commit to disk whatever the server's default is.
SELECT set_config('search_path', 'lukasa_jobs', false), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
        ELSE current_setting('synchronous_commit') END, false);

-- name: make_schema
CREATE SCHEMA IF NOT EXISTS lukasa_jobs;

-- name: make_migrations
-- Create the table of applied migrations.
CREATE TABLE IF NOT EXISTS lukasa_jobs.migration (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());

-- name: make_failures
CREATE TABLE IF NOT EXISTS lukasa_jobs.failure (
    job_id bigint PRIMARY KEY REFERENCES lukasa_jobs.procrastinate_jobs ON DELETE CASCADE, error text NOT NULL);

-- name: is_set_up
SELECT to_regclass('lukasa_jobs.failure') IS NOT NULL;

-- name: schema_exists
SELECT to_regnamespace('lukasa_jobs') IS NOT NULL;

-- name: role
SELECT quote_ident(current_user);

-- name: migrations
SELECT name FROM migration;

-- name: note_migration
INSERT INTO migration (name) VALUES (%s);

-- name: find
-- Scopes that are null mean every scope.
SELECT job.id, job.task_name, job.args, job.status::text, job.scheduled_at, job.attempts,
    coalesce(failure.error, '') AS error
FROM procrastinate_jobs AS job LEFT JOIN failure ON failure.job_id = job.id
WHERE job.status = ANY (%(states)s::procrastinate_job_status[])
    AND (%(scopes)s::text[] IS NULL OR job.args ->> 'scope' = ANY (%(scopes)s::text[]))
ORDER BY job.id;

-- name: count
SELECT status::text, count(*) FROM procrastinate_jobs
WHERE %(scopes)s::text[] IS NULL OR args ->> 'scope' = ANY (%(scopes)s::text[])
GROUP BY status;

-- name: waiting_with_lock
SELECT id FROM procrastinate_jobs WHERE queueing_lock = %s AND status = 'todo';

-- name: find_request
SELECT id FROM procrastinate_jobs WHERE task_name = %s AND args ->> 'call' = %s;

-- name: forget_failed
-- A job that is deferred again replaces the one that failed.
DELETE FROM procrastinate_jobs WHERE queueing_lock = %s AND status = 'failed';

-- name: retry
UPDATE procrastinate_jobs SET status = 'todo', attempts = 0, scheduled_at = NULL
WHERE id = %(id)s AND status IN ('failed', 'aborted', 'cancelled')
    AND (%(scopes)s::text[] IS NULL OR args ->> 'scope' = ANY (%(scopes)s::text[]))
RETURNING id;

-- name: drop
DELETE FROM procrastinate_jobs WHERE id = %(id)s AND status <> 'doing'
    AND (%(scopes)s::text[] IS NULL OR args ->> 'scope' = ANY (%(scopes)s::text[]))
RETURNING id;

-- name: note_failure
INSERT INTO failure (job_id, error) SELECT id, %(error)s FROM procrastinate_jobs WHERE id = %(id)s
ON CONFLICT (job_id) DO UPDATE SET error = excluded.error;

-- name: stalled
-- Running jobs whose worker sent no heartbeat for the time of a lease, or left without ending them.
SELECT job.id, job.task_name, job.args, job.status::text, job.scheduled_at, job.attempts, '' AS error
FROM procrastinate_jobs AS job
WHERE job.status = 'doing' AND job.task_name = ANY (%(names)s) AND NOT EXISTS (
    SELECT 1 FROM procrastinate_workers AS worker
    WHERE worker.id = job.worker_id AND worker.last_heartbeat >= now() - make_interval(secs => %(lease)s))
FOR UPDATE OF job SKIP LOCKED;

-- name: fail
SELECT procrastinate_finish_job_v1(%(id)s, 'failed', false);

-- name: wait_again
SELECT procrastinate_retry_job_v2(%(id)s, now(), NULL, NULL, NULL);

-- name: supersede
-- Remove a job because a newer one with its key waits.
DELETE FROM procrastinate_jobs WHERE id = %(id)s;

-- name: lock_rescue
-- Wait for another worker that rescues stalled jobs.
SELECT pg_advisory_xact_lock(%s, %s)

-- name: lock_migration
-- Wait for another process that migrates. The lock is released when the connection closes.
SELECT pg_advisory_lock(%s, %s)
