-- The table of the example. Whatever changes a row, a statement of SQL or `kubectl`, counts its version up and tells of its key.

create table machine (
    site text not null,
    name text not null,
    cores integer not null check (cores > 0),
    state text not null default 'off' check (state in ('off', 'on')),
    metadata jsonb not null default '{}',
    uid uuid not null default gen_random_uuid(),
    created timestamptz not null default now(),
    version bigint not null default 1,
    primary key (site, name)
);

create function machine_version() returns trigger language plpgsql as $$
begin
    new.version := old.version + 1;
    return new;
end $$;

-- A notice has no more than 8,000 bytes and is not repeated: it has the key, and the feed reads the row.
create function machine_told() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        perform pg_notify('machine', old.site || '/' || old.name);
    end if;
    if tg_op <> 'DELETE' then
        perform pg_notify('machine', new.site || '/' || new.name);
    end if;
    return null;
end $$;

create trigger machine_version before update on machine for each row execute function machine_version();
create trigger machine_told after insert or update or delete on machine for each row execute function machine_told();
