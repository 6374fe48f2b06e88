/*
 * A module with a check of its own in the pre-content phase: it answers 403 where the request's arguments are "refuse".
 * At its first request in a process it moves itself to the end of the phase, behind every other module, the way that
 * lua-nginx-module does. It never moves back: suspended requests hold indices into the array.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

static ngx_flag_t  moved;

static ngx_int_t
late_handler(ngx_http_request_t *r)
{
    ngx_http_phase_handler_t   own, *all;
    ngx_http_core_main_conf_t  *core;
    ngx_uint_t                  here, last;

    if (!moved) {
        moved = 1;
        core = ngx_http_get_module_main_conf(r, ngx_http_core_module);
        all = core->phase_engine.handlers;
        here = r->phase_handler;
        /* where an entry's phase ends, the next one begins */
        last = all[here].next - 1;

        if (here < last) {
            own = all[here];
            ngx_memmove(&all[here], &all[here + 1], (last - here) * sizeof(own));
            all[last] = own;
            /* the engine adds one, and comes to the entry that is here now */
            r->phase_handler--;
            return NGX_DECLINED;
        }
    }

    if (r->args.len == 6 && ngx_strncmp(r->args.data, "refuse", 6) == 0) {
        return NGX_HTTP_FORBIDDEN;
    }

    return NGX_DECLINED;
}

static ngx_int_t
late_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *handler;
    ngx_http_core_main_conf_t  *core;

    core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    handler = ngx_array_push(&core->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (handler == NULL) {
        return NGX_ERROR;
    }

    *handler = late_handler;
    return NGX_OK;
}

static ngx_http_module_t  late_context = {
    NULL, late_init, NULL, NULL, NULL, NULL, NULL, NULL
};

ngx_module_t  late_module = {
    NGX_MODULE_V1,
    &late_context,
    NULL,
    NGX_HTTP_MODULE,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NGX_MODULE_V1_PADDING
};

ngx_module_t  *ngx_modules[] = { &late_module, NULL };
char          *ngx_module_names[] = { "late_module", NULL };
char          *ngx_module_order[] = { NULL };
