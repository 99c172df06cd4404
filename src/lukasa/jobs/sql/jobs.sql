-- Beside procrastinate's tables stand two of ours: which of its migrations were applied, and what failed attempts said.

-- name: enter
-- A connection finds procrastinate's tables, and what it commits is on disk whatever the server's default is.
SELECT set_config('search_path', 'lukasa_jobs', false), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
        ELSE current_setting('synchronous_commit') END, false);

-- name: make_schema
CREATE SCHEMA IF NOT EXISTS lukasa_jobs;

-- name: make_books
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
-- A reach without walls is asked for with null.
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

-- name: forget_failed
-- Asked for anew: what failed before is no news any more.
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
-- Running, and whoever runs it has not been heard of for too long or has left without ending it.
SELECT job.id, job.task_name, job.args, job.status::text, job.scheduled_at, job.attempts, '' AS error
FROM procrastinate_jobs AS job
WHERE job.status = 'doing' AND job.task_name = ANY (%(names)s) AND NOT EXISTS (
    SELECT 1 FROM procrastinate_workers AS worker
    WHERE worker.id = job.worker_id AND worker.last_heartbeat >= now() - make_interval(secs => %(lease)s))
FOR UPDATE OF job SKIP LOCKED;

-- name: fail
SELECT procrastinate_finish_job_v1(%s, 'failed', false);

-- name: supersede
DELETE FROM procrastinate_jobs WHERE id = %s;

-- name: wait_again
SELECT procrastinate_retry_job_v2(%s, now(), NULL, NULL, NULL);

-- name: supersede_job
DELETE FROM procrastinate_jobs WHERE id = %(id)s;
